// vendor/preact.js
var M;
var h;
var Y;
var Z;
var x;
var ee;
var _e;
var te;
var B;
var N;
var E;
var ne;
var O;
var V;
var z;
var re;
var H = {};
var I = [];
var ye = /acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i;
var D = Array.isArray;
function w(_, e2) {
  for (var t2 in e2) _[t2] = e2[t2];
  return _;
}
function q(_) {
  _ && _.parentNode && _.parentNode.removeChild(_);
}
function G(_, e2, t2) {
  var o2, l, n, i2 = {};
  for (n in e2) n == "key" ? o2 = e2[n] : n == "ref" ? l = e2[n] : i2[n] = e2[n];
  if (arguments.length > 2 && (i2.children = arguments.length > 3 ? M.call(arguments, 2) : t2), typeof _ == "function" && _.defaultProps != null) for (n in _.defaultProps) i2[n] === void 0 && (i2[n] = _.defaultProps[n]);
  return W(_, i2, o2, l, null);
}
function W(_, e2, t2, o2, l) {
  var n = { type: _, props: e2, key: t2, ref: o2, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: l ?? ++Y, __i: -1, __u: 0 };
  return l == null && h.vnode != null && h.vnode(n), n;
}
function F(_) {
  return _.children;
}
function A(_, e2) {
  this.props = _, this.context = e2;
}
function P(_, e2) {
  if (e2 == null) return _.__ ? P(_.__, _.__i + 1) : null;
  for (var t2; e2 < _.__k.length; e2++) if ((t2 = _.__k[e2]) != null && t2.__e != null) return t2.__e;
  return typeof _.type == "function" ? P(_) : null;
}
function ge(_) {
  if (_.__P && _.__d) {
    var e2 = _.__v, t2 = e2.__e, o2 = [], l = [], n = w({}, e2);
    n.__v = e2.__v + 1, h.vnode && h.vnode(n), K(_.__P, n, e2, _.__n, _.__P.namespaceURI, 32 & e2.__u ? [t2] : null, o2, t2 ?? P(e2), !!(32 & e2.__u), l), n.__v = e2.__v, n.__.__k[n.__i] = n, fe(o2, n, l), e2.__e = e2.__ = null, n.__e != t2 && oe(n);
  }
}
function oe(_) {
  if ((_ = _.__) != null && _.__c != null) return _.__e = _.__c.base = null, _.__k.some(function(e2) {
    if (e2 != null && e2.__e != null) return _.__e = _.__c.base = e2.__e;
  }), oe(_);
}
function J(_) {
  (!_.__d && (_.__d = true) && x.push(_) && !R.__r++ || ee != h.debounceRendering) && ((ee = h.debounceRendering) || _e)(R);
}
function R() {
  try {
    for (var _, e2 = 1; x.length; ) x.length > e2 && x.sort(te), _ = x.shift(), e2 = x.length, ge(_);
  } finally {
    x.length = R.__r = 0;
  }
}
function le(_, e2, t2, o2, l, n, i2, u, a2, s2, p2) {
  var y2, r, c, d, g, m, v2 = o2 && o2.__k || I, f = e2.length;
  for (a2 = ke(t2, e2, v2, a2, f), y2 = 0; y2 < f; y2++) (c = t2.__k[y2]) != null && (r = c.__i != -1 && v2[c.__i] || H, c.__i = y2, m = K(_, c, r, l, n, i2, u, a2, s2, p2), d = c.__e, c.ref && r.ref != c.ref && (r.ref && Q(r.ref, null, c), p2.push(c.ref, c.__c || d, c)), g == null && d != null && (g = d), 4 & c.__u ? (a2 = ie(c, a2, _), r.__e && (r.__e = null)) : typeof c.type == "function" && m !== void 0 ? a2 = m : d && (a2 = d.nextSibling), c.__u &= -7);
  return t2.__e = g, a2;
}
function ke(_, e2, t2, o2, l) {
  var n, i2, u, a2, s2, p2 = t2.length, y2 = p2, r = 0;
  for (_.__k = new Array(l), n = 0; n < l; n++) (i2 = e2[n]) != null && typeof i2 != "boolean" && typeof i2 != "function" ? (typeof i2 == "string" || typeof i2 == "number" || typeof i2 == "bigint" || i2.constructor == String ? i2 = _.__k[n] = W(null, i2, null, null, null) : D(i2) ? i2 = _.__k[n] = W(F, { children: i2 }, null, null, null) : i2.constructor === void 0 && i2.__b > 0 ? i2 = _.__k[n] = W(i2.type, i2.props, i2.key, i2.ref ? i2.ref : null, i2.__v) : _.__k[n] = i2, a2 = n + r, i2.__ = _, i2.__b = _.__b + 1, u = null, (s2 = i2.__i = be(i2, t2, a2, y2)) != -1 && (y2--, (u = t2[s2]) && (u.__u |= 2)), u == null || u.__v == null ? (s2 == -1 && (l > p2 ? r-- : l < p2 && r++), typeof i2.type != "function" && (i2.__u |= 4)) : s2 != a2 && (s2 == a2 - 1 ? r-- : s2 == a2 + 1 ? r++ : (s2 > a2 ? r-- : r++, i2.__u |= 4))) : _.__k[n] = null;
  if (y2) for (n = 0; n < p2; n++) (u = t2[n]) != null && (2 & u.__u) == 0 && (u.__e == o2 && (o2 = P(u)), he(u, u));
  return o2;
}
function ie(_, e2, t2) {
  var o2, l;
  if (typeof _.type == "function") {
    for (o2 = _.__k, l = 0; o2 && l < o2.length; l++) o2[l] && (o2[l].__ = _, e2 = ie(o2[l], e2, t2));
    return e2;
  }
  _.__e != e2 && (e2 && _.type && !e2.parentNode && (e2 = P(_)), e2 = t2.insertBefore(_.__e, e2 || null));
  do
    e2 = e2 && e2.nextSibling;
  while (e2 != null && e2.nodeType == 8);
  return e2;
}
function be(_, e2, t2, o2) {
  var l, n, i2, u = _.key, a2 = _.type, s2 = e2[t2], p2 = s2 != null && (2 & s2.__u) == 0;
  if (s2 === null && u == null || p2 && u == s2.key && a2 == s2.type) return t2;
  if (o2 > (p2 ? 1 : 0)) {
    for (l = t2 - 1, n = t2 + 1; l >= 0 || n < e2.length; ) if ((s2 = e2[i2 = l >= 0 ? l-- : n++]) != null && (2 & s2.__u) == 0 && u == s2.key && a2 == s2.type) return i2;
  }
  return -1;
}
function ue(_, e2, t2) {
  e2[0] == "-" ? _.setProperty(e2, t2 ?? "") : _[e2] = t2 == null ? "" : typeof t2 != "number" || ye.test(e2) ? t2 : t2 + "px";
}
function $(_, e2, t2, o2, l) {
  var n, i2;
  e: if (e2 == "style") if (typeof t2 == "string") _.style.cssText = t2;
  else {
    if (typeof o2 == "string" && (_.style.cssText = o2 = ""), o2) for (e2 in o2) t2 && e2 in t2 || ue(_.style, e2, "");
    if (t2) for (e2 in t2) o2 && t2[e2] == o2[e2] || ue(_.style, e2, t2[e2]);
  }
  else if (e2[0] == "o" && e2[1] == "n") n = e2 != (e2 = e2.replace(ne, "$1")), i2 = e2.toLowerCase(), e2 = i2 in _ || e2 == "onFocusOut" || e2 == "onFocusIn" ? i2.slice(2) : e2.slice(2), _.l || (_.l = {}), _.l[e2 + n] = t2, t2 ? o2 ? t2[E] = o2[E] : (t2[E] = O, _.addEventListener(e2, n ? z : V, n)) : _.removeEventListener(e2, n ? z : V, n);
  else {
    if (l == "http://www.w3.org/2000/svg") e2 = e2.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if (e2 != "width" && e2 != "height" && e2 != "href" && e2 != "list" && e2 != "form" && e2 != "tabIndex" && e2 != "download" && e2 != "rowSpan" && e2 != "colSpan" && e2 != "role" && e2 != "popover" && e2 in _) try {
      _[e2] = t2 ?? "";
      break e;
    } catch {
    }
    typeof t2 == "function" || (t2 == null || t2 === false && e2[4] != "-" ? _.removeAttribute(e2) : _.setAttribute(e2, e2 == "popover" && t2 == 1 ? "" : t2));
  }
}
function ce(_) {
  return function(e2) {
    if (this.l) {
      var t2 = this.l[e2.type + _];
      if (e2[N] == null) e2[N] = O++;
      else if (e2[N] < t2[E]) return;
      return t2(h.event ? h.event(e2) : e2);
    }
  };
}
function K(_, e2, t2, o2, l, n, i2, u, a2, s2) {
  var p2, y2, r, c, d, g, m, v2, f, k2, U2, C, T2, X2, L2, j2, b2 = e2.type;
  if (e2.constructor !== void 0) return null;
  128 & t2.__u && (a2 = !!(32 & t2.__u), n = [u = e2.__e = t2.__e]), (p2 = h.__b) && p2(e2);
  e: if (typeof b2 == "function") {
    y2 = i2.length;
    try {
      if (f = e2.props, k2 = b2.prototype && b2.prototype.render, U2 = (p2 = b2.contextType) && o2[p2.__c], C = p2 ? U2 ? U2.props.value : p2.__ : o2, t2.__c ? v2 = (r = e2.__c = t2.__c).__ = r.__E : (k2 ? e2.__c = r = new b2(f, C) : (e2.__c = r = new A(f, C), r.constructor = b2, r.render = xe), U2 && U2.sub(r), r.state || (r.state = {}), r.__n = o2, c = r.__d = true, r.__h = [], r._sb = []), k2 && r.__s == null && (r.__s = r.state), k2 && b2.getDerivedStateFromProps != null && (r.__s == r.state && (r.__s = w({}, r.__s)), w(r.__s, b2.getDerivedStateFromProps(f, r.__s))), d = r.props, g = r.state, r.__v = e2, c) k2 && b2.getDerivedStateFromProps == null && r.componentWillMount != null && r.componentWillMount(), k2 && r.componentDidMount != null && r.__h.push(r.componentDidMount);
      else {
        if (k2 && b2.getDerivedStateFromProps == null && f !== d && r.componentWillReceiveProps != null && r.componentWillReceiveProps(f, C), e2.__v == t2.__v || !r.__e && r.shouldComponentUpdate != null && r.shouldComponentUpdate(f, r.__s, C) === false) {
          e2.__v != t2.__v && (r.props = f, r.state = r.__s, r.__d = false), e2.__e = t2.__e, e2.__k = t2.__k, e2.__k.some(function(S) {
            S && (S.__ = e2);
          }), I.push.apply(r.__h, r._sb), r._sb = [], r.__h.length && i2.push(r), u = P(t2);
          break e;
        }
        r.componentWillUpdate != null && r.componentWillUpdate(f, r.__s, C), k2 && r.componentDidUpdate != null && r.__h.push(function() {
          r.componentDidUpdate(d, g, m);
        });
      }
      if (r.context = C, r.props = f, r.__P = _, r.__e = false, T2 = h.__r, X2 = 0, k2) r.state = r.__s, r.__d = false, T2 && T2(e2), p2 = r.render(r.props, r.state, r.context), I.push.apply(r.__h, r._sb), r._sb = [];
      else do
        r.__d = false, T2 && T2(e2), p2 = r.render(r.props, r.state, r.context), r.state = r.__s;
      while (r.__d && ++X2 < 25);
      r.state = r.__s, r.getChildContext != null && (o2 = w(w({}, o2), r.getChildContext())), k2 && !c && r.getSnapshotBeforeUpdate != null && (m = r.getSnapshotBeforeUpdate(d, g)), L2 = p2 != null && p2.type === F && p2.key == null ? ae(p2.props.children) : p2, u = le(_, D(L2) ? L2 : [L2], e2, t2, o2, l, n, i2, u, a2, s2), r.base = e2.__e, e2.__u &= -161, r.__h.length && i2.push(r), v2 && (r.__E = r.__ = null);
    } catch (S) {
      if (i2.length = y2, e2.__v = null, a2 || n != null) {
        if (S.then) {
          for (e2.__u |= a2 ? 160 : 128; u && u.nodeType == 8 && u.nextSibling; ) u = u.nextSibling;
          n != null && (n[n.indexOf(u)] = null), e2.__e = u;
        } else if (n != null) for (j2 = n.length; j2--; ) q(n[j2]);
      } else e2.__e = t2.__e;
      e2.__k == null && (e2.__k = t2.__k || []), S.then || pe(e2), h.__e(S, e2, t2);
    }
  } else n == null && e2.__v == t2.__v ? (e2.__k = t2.__k, e2.__e = t2.__e) : u = e2.__e = we(t2.__e, e2, t2, o2, l, n, i2, a2, s2);
  return (p2 = h.diffed) && p2(e2), 128 & e2.__u ? void 0 : u;
}
function pe(_) {
  _ && (_.__c && (_.__c.__e = true), _.__k && _.__k.some(pe));
}
function fe(_, e2, t2) {
  for (var o2 = 0; o2 < t2.length; o2++) Q(t2[o2], t2[++o2], t2[++o2]);
  h.__c && h.__c(e2, _), _.some(function(l) {
    try {
      _ = l.__h, l.__h = [], _.some(function(n) {
        n.call(l);
      });
    } catch (n) {
      h.__e(n, l.__v);
    }
  });
}
function ae(_) {
  return typeof _ != "object" || _ == null || _.__b > 0 ? _ : D(_) ? _.map(ae) : _.constructor !== void 0 ? null : w({}, _);
}
function we(_, e2, t2, o2, l, n, i2, u, a2) {
  var s2, p2, y2, r, c, d, g, m = t2.props || H, v2 = e2.props, f = e2.type;
  if (f == "svg" ? l = "http://www.w3.org/2000/svg" : f == "math" ? l = "http://www.w3.org/1998/Math/MathML" : l || (l = "http://www.w3.org/1999/xhtml"), n != null) {
    for (s2 = 0; s2 < n.length; s2++) if ((c = n[s2]) && "setAttribute" in c == !!f && (f ? c.localName == f : c.nodeType == 3)) {
      _ = c, n[s2] = null;
      break;
    }
  }
  if (_ == null) {
    if (f == null) return document.createTextNode(v2);
    _ = document.createElementNS(l, f, v2.is && v2), u && (h.__m && h.__m(e2, n), u = false), n = null;
  }
  if (f == null) m === v2 || u && _.data == v2 || (_.data = v2);
  else {
    if (n = f == "textarea" && v2.defaultValue != null ? null : n && M.call(_.childNodes), !u && n != null) for (m = {}, s2 = 0; s2 < _.attributes.length; s2++) m[(c = _.attributes[s2]).name] = c.value;
    for (s2 in m) c = m[s2], s2 == "dangerouslySetInnerHTML" ? y2 = c : s2 == "children" || s2 in v2 || s2 == "value" && "defaultValue" in v2 || s2 == "checked" && "defaultChecked" in v2 || $(_, s2, null, c, l);
    for (s2 in v2) c = v2[s2], s2 == "children" ? r = c : s2 == "dangerouslySetInnerHTML" ? p2 = c : s2 == "value" ? d = c : s2 == "checked" ? g = c : u && typeof c != "function" || m[s2] === c || $(_, s2, c, m[s2], l);
    if (p2) u || y2 && (p2.__html == y2.__html || p2.__html == _.innerHTML) || (_.innerHTML = p2.__html), e2.__k = [];
    else if (y2 && (_.innerHTML = ""), le(e2.type == "template" ? _.content : _, D(r) ? r : [r], e2, t2, o2, f == "foreignObject" ? "http://www.w3.org/1999/xhtml" : l, n, i2, n ? n[0] : t2.__k && P(t2, 0), u, a2), n != null) for (s2 = n.length; s2--; ) q(n[s2]);
    u && f != "textarea" || (s2 = "value", f == "progress" && d == null ? _.removeAttribute("value") : d != null && (d !== _[s2] || f == "progress" && !d || f == "option" && d != m[s2]) && $(_, s2, d, m[s2], l), s2 = "checked", g != null && g != _[s2] && $(_, s2, g, m[s2], l));
  }
  return _;
}
function Q(_, e2, t2) {
  try {
    if (typeof _ == "function") {
      var o2 = typeof _.__u == "function";
      o2 && _.__u(), o2 && e2 == null || (_.__u = _(e2));
    } else _.current = e2;
  } catch (l) {
    h.__e(l, t2);
  }
}
function he(_, e2, t2) {
  var o2, l;
  if (h.unmount && h.unmount(_), (o2 = _.ref) && (o2.current && o2.current != _.__e || Q(o2, null, e2)), (o2 = _.__c) != null) {
    if (o2.componentWillUnmount) try {
      o2.componentWillUnmount();
    } catch (n) {
      h.__e(n, e2);
    }
    o2.base = o2.__P = o2.__n = null;
  }
  if (o2 = _.__k) for (l = 0; l < o2.length; l++) o2[l] && he(o2[l], e2, t2 || typeof _.type != "function");
  t2 || q(_.__e), _.__c = _.__ = _.__e = void 0;
}
function xe(_, e2, t2) {
  return this.constructor(_, t2);
}
function de(_, e2, t2) {
  var o2, l, n, i2;
  e2 == document && (e2 = document.documentElement), h.__ && h.__(_, e2), l = (o2 = typeof t2 == "function") ? null : t2 && t2.__k || e2.__k, n = [], i2 = [], K(e2, _ = (!o2 && t2 || e2).__k = G(F, null, [_]), l || H, H, e2.namespaceURI, !o2 && t2 ? [t2] : l ? null : e2.firstChild ? M.call(e2.childNodes) : null, n, !o2 && t2 ? t2 : l ? l.__e : e2.firstChild, o2, i2), fe(n, _, i2), _.props.children = null;
}
M = I.slice, h = { __e: function(_, e2, t2, o2) {
  for (var l, n, i2; e2 = e2.__; ) if ((l = e2.__c) && !l.__) try {
    if ((n = l.constructor) && n.getDerivedStateFromError != null && (l.setState(n.getDerivedStateFromError(_)), i2 = l.__d), l.componentDidCatch != null && (l.componentDidCatch(_, o2 || {}), i2 = l.__d), i2) return l.__E = l;
  } catch (u) {
    _ = u;
  }
  throw _;
} }, Y = 0, Z = function(_) {
  return _ != null && _.constructor === void 0;
}, A.prototype.setState = function(_, e2) {
  var t2;
  t2 = this.__s != null && this.__s != this.state ? this.__s : this.__s = w({}, this.state), typeof _ == "function" && (_ = _(w({}, t2), this.props)), _ && w(t2, _), _ != null && this.__v && (e2 && this._sb.push(e2), J(this));
}, A.prototype.forceUpdate = function(_) {
  this.__v && (this.__e = true, _ && this.__h.push(_), J(this));
}, A.prototype.render = F, x = [], _e = typeof Promise == "function" ? Promise.prototype.then.bind(Promise.resolve()) : setTimeout, te = function(_, e2) {
  return _.__v.__b - e2.__v.__b;
}, R.__r = 0, B = Math.random().toString(8), N = "__d" + B, E = "__a" + B, ne = /(PointerCapture)$|Capture$/i, O = 0, V = ce(false), z = ce(true), re = 0;

// vendor/htm.js
var M2 = function(p2, f, c, n) {
  var l;
  f[0] = 0;
  for (var u = 1; u < f.length; u++) {
    var g = f[u++], o2 = f[u] ? (f[0] |= g ? 1 : 2, c[f[u++]]) : f[++u];
    g === 3 ? n[0] = o2 : g === 4 ? n[1] = Object.assign(n[1] || {}, o2) : g === 5 ? (n[1] = n[1] || {})[f[++u]] = o2 : g === 6 ? n[1][f[++u]] += o2 + "" : g ? (l = p2.apply(o2, M2(p2, o2, c, ["", null])), n.push(l), o2[0] ? f[0] |= 2 : (f[u - 2] = 0, f[u] = l)) : n.push(o2);
  }
  return n;
};
var a = /* @__PURE__ */ new Map();
function htm_default(p2) {
  var f = a.get(this);
  return f || (f = /* @__PURE__ */ new Map(), a.set(this, f)), (f = M2(this, f.get(p2) || (f.set(p2, f = (function(c) {
    for (var n, l, u = 1, g = "", o2 = "", i2 = [0], s2 = function(v2) {
      u === 1 && (v2 || (g = g.replace(/^\s*\n\s*|\s*\n\s*$/g, ""))) ? i2.push(0, v2, g) : u === 3 && (v2 || g) ? (i2.push(3, v2, g), u = 2) : u === 2 && g === "..." && v2 ? i2.push(4, v2, 0) : u === 2 && g && !v2 ? i2.push(5, 0, true, g) : u >= 5 && ((g || !v2 && u === 5) && (i2.push(u, 0, g, l), u = 6), v2 && (i2.push(u, v2, 0, l), u = 6)), g = "";
    }, t2 = 0; t2 < c.length; t2++) {
      t2 && (u === 1 && s2(), s2(t2));
      for (var w2 = 0; w2 < c[t2].length; w2++) n = c[t2][w2], u === 1 ? n === "<" ? (s2(), i2 = [i2], u = 3) : g += n : u === 4 ? g === "--" && n === ">" ? (u = 1, g = "") : g = n + g[0] : o2 ? n === o2 ? o2 = "" : g += n : n === '"' || n === "'" ? o2 = n : n === ">" ? (s2(), u = 1) : u && (n === "=" ? (u = 5, l = g, g = "") : n === "/" && (u < 5 || c[t2][w2 + 1] === ">") ? (s2(), u === 3 && (i2 = i2[0]), u = i2, (i2 = i2[0]).push(2, 0, u), u = 0) : n === " " || n === "	" || n === `
` || n === "\r" ? (s2(), u = 2) : g += n), u === 3 && g === "!--" && (u = 4, i2 = i2[0]);
    }
    return s2(), i2;
  })(p2)), f), arguments, [])).length > 1 ? f : f[0];
}

// vendor/hooks.js
var i;
var e;
var H2;
var A2;
var v = 0;
var D2 = [];
var o = h;
var F2 = o.__b;
var k = o.__r;
var q2 = o.diffed;
var x2 = o.__c;
var T = o.unmount;
var U = o.__;
function s(t2, _) {
  o.__h && o.__h(e, t2, v || _), v = 0;
  var u = e.__H || (e.__H = { __: [], __h: [] });
  return t2 >= u.__.length && u.__.push({}), u.__[t2];
}
function E2(t2) {
  return v = 1, P2(I2, t2);
}
function P2(t2, _, u) {
  var n = s(i++, 2);
  if (n.t = t2, !n.__c && (n.__ = [u ? u(_) : I2(void 0, _), function(c) {
    var a2 = n.__N ? n.__N[0] : n.__[0], f = n.t(a2, c);
    a2 !== f && (n.__N = [f, n.__[1]], n.__c.setState({}));
  }], n.__c = e, !e.__f)) {
    var r = function(c, a2, f) {
      if (!n.__c.__H) return true;
      var l = false, d = n.__c.props !== c;
      if (n.__c.__H.__.some(function(m) {
        if (m.__N) {
          l = true;
          var R2 = m.__[0];
          m.__ = m.__N, m.__N = void 0, R2 !== m.__[0] && (d = true);
        }
      }), h2) {
        var C = h2.call(this, c, a2, f);
        return l ? C || d : C;
      }
      return !l || d;
    };
    e.__f = true;
    var h2 = e.shouldComponentUpdate, g = e.componentWillUpdate;
    e.componentWillUpdate = function(c, a2, f) {
      if (this.__e) {
        var l = h2;
        h2 = void 0, r(c, a2, f), h2 = l;
      }
      g && g.call(this, c, a2, f);
    }, e.shouldComponentUpdate = r;
  }
  return n.__N || n.__;
}
function W2(t2, _) {
  var u = s(i++, 3);
  !o.__s && b(u.__H, _) && (u.__ = t2, u.u = _, e.__H.__h.push(u));
}
function V2(t2, _) {
  var u = s(i++, 4);
  !o.__s && b(u.__H, _) && (u.__ = t2, u.u = _, e.__h.push(u));
}
function j(t2) {
  return v = 5, y(function() {
    return { current: t2 };
  }, []);
}
function y(t2, _) {
  var u = s(i++, 7);
  return b(u.__H, _) && (u.__ = t2(), u.__H = _, u.__h = t2), u.__;
}
function z2(t2, _) {
  return v = 8, y(function() {
    return t2;
  }, _);
}
function G2(t2) {
  var _ = s(i++, 10), u = E2();
  return _.__ = t2, e.componentDidCatch || (e.componentDidCatch = function(n, r) {
    _.__ && _.__(n, r), u[1](n);
  }), [u[0], function() {
    u[1](void 0);
  }];
}
function J2() {
  var t2 = s(i++, 11);
  if (!t2.__) {
    for (var _ = e.__v; _ !== null && !_.__m && _.__ !== null; ) _ = _.__;
    var u = _.__m || (_.__m = [0, 0]);
    t2.__ = "P" + u[0] + "-" + u[1]++;
  }
  return t2.__;
}
function K2() {
  for (var t2; t2 = D2.shift(); ) {
    var _ = t2.__H;
    if (t2.__P && _) try {
      _.__h.some(p), _.__h.some(N2), _.__h = [];
    } catch (u) {
      _.__h = [], o.__e(u, t2.__v);
    }
  }
}
o.__b = function(t2) {
  e = null, F2 && F2(t2);
}, o.__ = function(t2, _) {
  t2 && _.__k && _.__k.__m && (t2.__m = _.__k.__m), U && U(t2, _);
}, o.__r = function(t2) {
  k && k(t2), i = 0;
  var _ = (e = t2.__c).__H;
  _ && (H2 === e ? (_.__h = [], e.__h = [], _.__.some(function(u) {
    u.__N && (u.__ = u.__N), u.u = u.__N = void 0;
  })) : (_.__h.some(p), _.__h.some(N2), _.__h = [], i = 0)), H2 = e;
}, o.diffed = function(t2) {
  q2 && q2(t2);
  var _ = t2.__c;
  _ && _.__H && (_.__H.__h.length && (D2.push(_) !== 1 && A2 === o.requestAnimationFrame || ((A2 = o.requestAnimationFrame) || O2)(K2)), _.__H.__.some(function(u) {
    u.u && (u.__H = u.u, u.u = void 0);
  })), H2 = e = null;
}, o.__c = function(t2, _) {
  _.some(function(u) {
    try {
      u.__h.some(p), u.__h = u.__h.filter(function(n) {
        return !n.__ || N2(n);
      });
    } catch (n) {
      _.some(function(r) {
        r.__h && (r.__h = []);
      }), _ = [], o.__e(n, u.__v);
    }
  }), x2 && x2(t2, _);
}, o.unmount = function(t2) {
  T && T(t2);
  var _, u = t2.__c;
  u && u.__H && (u.__H.__.some(function(n) {
    try {
      p(n);
    } catch (r) {
      _ = r;
    }
  }), u.__H = void 0, _ && o.__e(_, u.__v));
};
var B2 = typeof requestAnimationFrame == "function";
function O2(t2) {
  var _, u = function() {
    clearTimeout(n), B2 && cancelAnimationFrame(_), setTimeout(t2);
  }, n = setTimeout(u, 35);
  B2 && (_ = requestAnimationFrame(u));
}
function p(t2) {
  var _ = e, u = t2.__c;
  typeof u == "function" && (t2.__c = void 0, u()), e = _;
}
function N2(t2) {
  var _ = e;
  t2.__c = t2.__(), e = _;
}
function b(t2, _) {
  return !t2 || t2.length !== _.length || _.some(function(u, n) {
    return u !== t2[n];
  });
}
function I2(t2, _) {
  return typeof _ == "function" ? _(t2) : _;
}

// core/lib.js
var html = htm_default.bind(G);

// core/api.js
var Problem = class extends Error {
  /**
   * @param {number} status
   * @param {ProblemBody} body
   */
  constructor(status2, body) {
    super(body.detail || body.title || `HTTP ${status2}`);
    this.status = status2;
    this.title = body.title || `HTTP ${status2}`;
    this.detail = body.detail || "";
    this.code = body.code || "";
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    this.storedAfter = body.stored_after;
    this.shownAsOfMs = null;
  }
};
var session = null;
var onUnauthorized = () => {
};
function whenUnauthorized(listener) {
  onUnauthorized = listener;
}
function urlOf(path, query = {}) {
  const url = new URL(path, document.baseURI.replace(/[?#].*$/, ""));
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== void 0 && value !== "") url.searchParams.set(key, String(value));
  }
  return url.href;
}
async function call(method, path, { query, body, text, headers, signal, heard: heard2 } = {}) {
  const sent = text ?? (body === void 0 ? void 0 : toJson(body));
  const fields = { Accept: "application/json", ...headers };
  if (sent !== void 0) fields["Content-Type"] = "application/json";
  if (method !== "GET" && session?.csrf_token) fields["X-CSRF-Token"] = session.csrf_token;
  let response;
  try {
    response = await fetch(urlOf(path, query), {
      method,
      headers: fields,
      body: sent ?? null,
      signal: signal ?? null,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error"
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, { title: "No answer", code: "no_answer" });
  }
  const answer = await response.text();
  let parsed2 = null;
  if (answer) {
    try {
      parsed2 = parseExact(answer);
    } catch {
      throw new Problem(response.ok ? 0 : response.status, {
        title: "The answer is not JSON",
        code: "not_json"
      });
    }
  }
  if (!response.ok) {
    const problem = new Problem(
      response.status,
      /** @type {ProblemBody | null} */
      parsed2 ?? {}
    );
    if (response.status === 401 && path !== "api/session") onUnauthorized(problem);
    throw problem;
  }
  heard2?.(response);
  return (
    /** @type {Answer<Path, Lowercase<Verb>>} */
    parsed2
  );
}
var get = (path, query, signal) => call("GET", path, { ...query && { query }, ...signal && { signal } });
var post = (path, body) => call("POST", path, body === void 0 ? {} : { body });
var patch = (path, body) => call("PATCH", path, { body });
var put = (path, body, headers) => call("PUT", path, { body, ...headers && { headers } });
var del = (path) => call("DELETE", path);
function begunCall() {
  const page = (
    /** @type {{jqmasterSession?: Promise<Response>}} */
    globalThis
  );
  const begun2 = page.jqmasterSession;
  delete page.jqmasterSession;
  return begun2?.then(
    async (response) => {
      if (!response.ok) throw new Problem(response.status, {});
      return (
        /** @type {Session} */
        parseExact(await response.text())
      );
    },
    () => Promise.reject(new Problem(0, { title: "No answer", code: "no_answer" }))
  );
}
async function fetchSession() {
  return session = await (begunCall() ?? call("GET", "api/session"));
}
async function logIn(credentials) {
  return session = await call("POST", "api/session", { body: credentials });
}
async function logOut() {
  const answer = await call("DELETE", "api/session");
  session = null;
  return answer?.logout_url ?? null;
}
function may(of2, scope) {
  const scopes = (
    /** @type {string[]} */
    of2?.scopes ?? []
  );
  return scopes.includes(scope) || scopes.includes("admin") || scope === "read" && scopes.includes("operate");
}
var NUMBERS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
var LONG_INTEGER = /^-?\d{16,}$/;
function parseExact(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const mark = `${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
  let found = false;
  const marked = text.replace(NUMBERS, (token) => {
    if (!LONG_INTEGER.test(token) || Number.isSafeInteger(Number(token))) return token;
    found = true;
    return JSON.stringify(mark + token);
  });
  if (!found) return JSON.parse(text);
  return JSON.parse(
    marked,
    (_, value) => typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value
  );
}
function toJson(value, indent = 0) {
  const mark = `${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
  let found = false;
  const text = JSON.stringify(
    value,
    (_, member) => {
      if (typeof member !== "bigint") return member;
      found = true;
      return mark + member;
    },
    indent
  ) ?? "null";
  if (!found) return text;
  const quoted = JSON.stringify(mark).slice(0, -1);
  return text.split(quoted).map((part, i2) => i2 ? part.replace('"', "") : part).join("");
}

// core/prefs.js
var PREFIX = "jqmaster.";
var listeners = /* @__PURE__ */ new Map();
var values = /* @__PURE__ */ new Map();
function pref(name, fallback) {
  if (!values.has(name)) {
    let value = null;
    try {
      const text = localStorage.getItem(PREFIX + name);
      if (text !== null) value = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text;
    } catch {
    }
    values.set(name, value);
  }
  return (
    /** @type {Preference<Of> | null} */
    values.get(name) ?? fallback
  );
}
function setPref(name, value) {
  values.set(name, value);
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, typeof value === "string" ? value : JSON.stringify(value));
  } catch {
  }
  for (const listener of listeners.get(name) ?? []) listener();
}
function usePref(name, fallback) {
  const [, redraw] = E2(0);
  W2(() => {
    const listener = () => redraw((n) => n + 1);
    const all = listeners.get(name) ?? /* @__PURE__ */ new Set();
    listeners.set(name, all.add(listener));
    return () => void all.delete(listener);
  }, [name]);
  return [pref(name, fallback), (value) => setPref(name, value)];
}

// core/i18n.js
var LANGUAGES = { en: "English", ja: "日本語" };
var isLanguage = (code) => code !== null && Object.hasOwn(LANGUAGES, code);
var loaded = {};
function language() {
  const chosen = pref("language", null);
  if (isLanguage(chosen)) return chosen;
  return (navigator.languages ?? [navigator.language]).some((tag) => tag.startsWith("ja")) ? "ja" : "en";
}
async function load(code) {
  const address = document.documentElement.getAttribute(`data-language-${code}`) ?? "";
  loaded[code] ??= (await import(new URL(address, document.baseURI).href)).default;
}
async function setLanguage(code) {
  await load(code);
  setPref("language", code);
}
await load(language());
function t(key, values2 = {}) {
  let text = loaded[language()]?.[key] ?? key;
  if (text.includes("||")) {
    const [one = "", many = ""] = text.split("||");
    text = Number(values2["count"]) === 1 ? one : many;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values2[name];
    return value === void 0 ? whole : typeof value === "number" ? number(value) : value;
  });
}
function tOr(key, fallback) {
  return loaded[language()]?.[key] ?? fallback;
}
var numberFormats = /* @__PURE__ */ new Map();
function number(value, options) {
  const key = `${language()} ${options ? JSON.stringify(options) : ""}`;
  const format = numberFormats.get(key) ?? new Intl.NumberFormat(language(), options);
  numberFormats.set(key, format);
  return format.format(value);
}

// core/freshness.js
var OLD_MS = 5e3;
var EVERY_MS = 1e3;
var asOfMs = null;
var asOf = null;
var isTold = false;
var isOpen = false;
var fault = null;
var failing = /* @__PURE__ */ new Set();
var listeners2 = /* @__PURE__ */ new Set();
var lastLookMs = Date.now();
function opened() {
  isOpen = true;
  isTold = false;
  asOfMs ??= Date.now();
}
function closed() {
  if (isOpen && !isTold) {
    asOfMs = Date.now();
    asOf = new Date(asOfMs).toISOString();
  }
  isOpen = false;
}
function forget() {
  closed();
  asOfMs = null;
  asOf = null;
  fault = null;
}
function told({ as_of, age_ms, fault: present }) {
  isTold = true;
  if (age_ms !== null) {
    asOfMs = Date.now() - age_ms;
    asOf = as_of;
  }
  fault = present;
  look();
}
function toldByAnswer(present) {
  fault = present;
  look();
}
var streamAsOfMs = () => isOpen && !isTold ? Date.now() : asOfMs;
function note(resource, isFailing) {
  if (isFailing === failing.has(resource)) return;
  if (isFailing) failing.add(resource);
  else failing.delete(resource);
  look();
}
function freshness() {
  const since = streamAsOfMs();
  const ageMs = since === null ? null : Math.max(0, Date.now() - since);
  return { ageMs, asOf, isOld: ageMs !== null && ageMs > OLD_MS, fault, isPartOld: failing.size > 0 };
}
function useFreshness() {
  const [value, setValue] = E2(freshness);
  W2(() => {
    const tell2 = () => setValue((before) => {
      const now = freshness();
      const isSame2 = !now.isOld && !before.isOld && before.fault === now.fault && before.isPartOld === now.isPartOld;
      return isSame2 ? before : now;
    });
    listeners2.add(tell2);
    tell2();
    return () => void listeners2.delete(tell2);
  }, []);
  return value;
}
function look() {
  for (const listener of [...listeners2]) listener();
}
setInterval(() => {
  const sinceMs = Date.now() - lastLookMs;
  lastLookMs = Date.now();
  if (!document.hidden && sinceMs < 2 * EVERY_MS) look();
}, EVERY_MS);

// core/live.js
var EVENTS = [
  "stats",
  "jobs",
  "workers",
  "masters",
  "constraints",
  "definitions",
  "events",
  "batches",
  "settings",
  "action"
];
var HIDDEN_GRACE_MS = 3e3;
var FIRST_WORD_MS = 2500;
var RETRY_MS = [500, 1e3, 2e3, 4e3];
var PING_MS = 15e3;
var SILENCE_MS = 2 * PING_MS + 5e3;
var listeners3 = /* @__PURE__ */ new Map();
var latest = {};
var source = null;
var status = "off";
var failures = 0;
var timer;
var silence;
var isStarted = false;
var wasStopped = false;
function start() {
  if (isStarted) return;
  isStarted = true;
  failures = 0;
  connect();
}
function stop() {
  isStarted = false;
  wasStopped = true;
  close();
  latest = {};
  forget();
  setStatus("off");
}
var liveStatus = () => status;
function listen(event, listener) {
  const all = listeners3.get(event) ?? /* @__PURE__ */ new Set();
  listeners3.set(event, all.add(listener));
  return () => void all.delete(listener);
}
function useLiveStatus() {
  const [value, setValue] = E2(status);
  W2(() => listen("status", setValue), []);
  return value;
}
function useLatest(event) {
  const [value, setValue] = E2(
    /** @type {LiveData[Event] | null} */
    latest[event] ?? null
  );
  W2(() => listen(event, (data) => setValue(() => data)), [event]);
  return value;
}
function pushedOr(event, load4) {
  const known2 = latest[event];
  if (known2 !== void 0) return Promise.resolve(known2);
  return new Promise((resolve, reject) => {
    const end = listen(event, (data) => {
      clearTimeout(late);
      end();
      resolve(data);
    });
    const late = setTimeout(() => {
      end();
      load4().then(resolve, reject);
    }, FIRST_WORD_MS);
  });
}
function connect() {
  close();
  if (!isStarted || document.hidden) return;
  if (status !== "lost") setStatus("connecting");
  const opened2 = new EventSource(urlOf("api/stream"));
  source = opened2;
  heard(opened2);
  opened2.onopen = () => {
    heard(opened2);
    const wasLost = status === "lost" || status === "paused" || wasStopped;
    wasStopped = false;
    failures = 0;
    opened();
    setStatus("live");
    if (wasLost) tell("resumed", null);
  };
  opened2.onerror = () => broke(opened2);
  opened2.addEventListener("alive", () => heard(opened2));
  opened2.addEventListener("freshness", (message) => {
    heard(opened2);
    const wasOld = freshness().isOld;
    told(JSON.parse(
      /** @type {MessageEvent} */
      message.data
    ));
    if (wasOld && !freshness().isOld) tell("resumed", null);
  });
  for (const event of EVENTS) {
    opened2.addEventListener(event, (message) => {
      heard(opened2);
      let data = null;
      try {
        data = JSON.parse(
          /** @type {MessageEvent} */
          message.data
        );
      } catch {
        return;
      }
      latest = { ...latest, [event]: data };
      tell(event, data);
    });
  }
}
function heard(stream) {
  if (source !== stream) return;
  clearTimeout(silence);
  silence = setTimeout(() => broke(stream), SILENCE_MS);
}
function broke(stream) {
  if (source !== stream) return;
  close();
  failures += 1;
  if (failures > 1 || status === "live") setStatus("lost");
  if (failures >= 2) call("GET", "api/stats").then(() => toldByAnswer(null), tellFault);
  timer = setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
}
function tellFault(error) {
  const isOfStore = error instanceof Problem && error.code.startsWith("store_");
  toldByAnswer(isOfStore ? { code: error.code, detail: error.detail } : null);
}
function close() {
  closed();
  clearTimeout(timer);
  clearTimeout(silence);
  source?.close();
  source = null;
}
function setStatus(value) {
  if (status === value) return;
  status = value;
  tell("status", value);
}
function tell(event, data) {
  const all = (
    /** @type {Set<(data: Told[Event]) => void> | undefined} */
    listeners3.get(event)
  );
  for (const listener of [...all ?? []]) listener(data);
}
document.addEventListener("visibilitychange", () => {
  if (!isStarted) return;
  clearTimeout(timer);
  if (document.hidden) {
    timer = setTimeout(() => {
      close();
      setStatus("paused");
    }, HIDDEN_GRACE_MS);
  } else if (source === null) {
    failures = 0;
    connect();
  }
});

// core/text.js
var UNSAFE = /[\u0000-\u0009\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;
function pieces(text, isBlock = false) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(UNSAFE)) {
    const char = match[0];
    if (isBlock && char === "	") continue;
    found.push(text.slice(end, match.index), escape(char));
    end = match.index + char.length;
  }
  found.push(text.slice(end));
  return isBlock ? found : found.map((piece, i2) => i2 % 2 ? piece : piece.replaceAll("\n", "⏎"));
}
function visible(text) {
  return pieces(text).join("");
}
function escape(char) {
  const code = char.codePointAt(0) ?? 0;
  if (code === 27) return "\\e";
  if (code < 256) return "\\x" + code.toString(16).padStart(2, "0");
  return code > 65535 ? `\\u{${code.toString(16)}}` : "\\u" + code.toString(16).padStart(4, "0");
}
function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

// ui/formats.js
function Text({ value, max = 300, isBlock = false }) {
  const [isWhole, setWhole] = E2(false);
  const text = value === null || value === void 0 ? "" : String(value);
  const isCut2 = !isWhole && text.length > max;
  const shown2 = isCut2 ? text.slice(0, max) : text;
  return html`<bdi class="text">${pieces(shown2, isBlock).map(
    (piece, i2) => i2 % 2 ? html`<span class="escape" title=${t("text.escape")}>${piece}</span>` : piece
  )}</bdi>${isCut2 && html`<button type="button" class="link" onClick=${(event) => {
    event.preventDefault();
    event.stopPropagation();
    setWhole(true);
  }}>${t("text.more", { count: text.length - max })}</button>`}`;
}
var Marked = ({ text }) => html`<span>${text.split("`").map((part, at2) => at2 % 2 ? html`<code>${visible(part)}</code>` : visible(part))}</span>`;
function Num({ value, digits = 0 }) {
  if (value === null || value === void 0)
    return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num">${number(value, { maximumFractionDigits: digits })}</span>`;
}
var UNITS = (
  /** @type {const} */
  [
    ["d", 864e5],
    ["h", 36e5],
    ["min", 6e4],
    ["s", 1e3],
    ["ms", 1]
  ]
);
function durationText(ms4, isCoarse = false) {
  const sign = ms4 < 0 ? "−" : "";
  const all = Math.abs(ms4);
  if (all < 1) return `${sign}${number(all, { maximumFractionDigits: 1 })} ${t("unit.ms")}`;
  if (all < 1e3) return `${sign}${Math.round(all)} ${t("unit.ms")}`;
  if (all < 1e4) return `${sign}${number(all / 1e3, { maximumFractionDigits: 1 })} ${t("unit.s")}`;
  const at2 = UNITS.findIndex(([, size2]) => all >= size2);
  const [unit, size] = UNITS[at2] ?? ["ms", 1];
  const whole = Math.floor(all / size);
  const next = UNITS[at2 + 1];
  const hasRest = next && unit !== "s" && !(isCoarse && whole >= 10);
  const rest = hasRest ? Math.floor((all - whole * size) / next[1]) : 0;
  return `${sign}${number(whole)} ${t(`unit.${unit}`)}` + (rest && next ? ` ${rest} ${t(`unit.${next[0]}`)}` : "");
}
var MINUTE_MS = 6e4;
function steadyMs(ms4) {
  const step = ms4 < MINUTE_MS ? 1e3 : MINUTE_MS;
  return Math.floor(ms4 / step) * step;
}
function Duration({ ms: ms4 }) {
  if (ms4 === null || ms4 === void 0) return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num">${durationText(ms4)}</span>`;
}
var perSText = (rate) => t("rate.per_s", { rate: number(rate, { maximumFractionDigits: rate < 0.1 ? 3 : rate < 10 ? 2 : 1 }) });
function bytesText(bytes) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at2 = 0;
  while (value >= 1024 && at2 < names.length - 1) {
    value /= 1024;
    at2 += 1;
  }
  return `${number(value, { maximumFractionDigits: value < 10 && at2 ? 1 : 0 })} ${names[at2]}`;
}
function Bytes({ value }) {
  if (value === null || value === void 0)
    return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num" title=${`${number(value)} B`}>${bytesText(value)}</span>`;
}
var skewMs = 0;
function tellTime(at2) {
  const ms4 = Date.parse(at2) - Date.now();
  if (Number.isFinite(ms4)) skewMs = ms4;
}
var nowMs = () => Date.now() + skewMs;
var tickers = /* @__PURE__ */ new Set();
setInterval(() => {
  if (!document.hidden) for (const tick of [...tickers]) tick();
}, 1e3);
function useTick() {
  const [, redraw] = E2(0);
  W2(() => {
    const tick = () => redraw((n) => n + 1);
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, []);
}
function utcText(ms4) {
  const date = new Date(ms4);
  return Number.isNaN(date.getTime()) ? "?" : date.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}
var zoneFormat = new Intl.DateTimeFormat("en", { timeZoneName: "short" });
function localText(ms4) {
  const date = new Date(ms4);
  if (Number.isNaN(date.getTime())) return "?";
  const two2 = (part) => String(part).padStart(2, "0");
  const zone = zoneFormat.formatToParts(date).find((part) => part.type === "timeZoneName");
  const day = `${date.getFullYear()}-${two2(date.getMonth() + 1)}-${two2(date.getDate())}`;
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two2).join(":");
  return `${day} ${clock} ${zone?.value ?? ""}`;
}
var instantText = (ms4, mode) => mode === "utc" ? utcText(ms4) : localText(ms4);
function instantParts(ms4, mode) {
  const [day = "", clock = "", zone = ""] = instantText(ms4, mode).split(" ");
  return { day, clock, zone };
}
function clockText(ms4, mode) {
  const { day, clock, zone } = instantParts(ms4, mode);
  return `${day === instantParts(nowMs(), mode).day ? "" : `${day} `}${clock} ${zone}`;
}
function minuteText(ms4) {
  const { day, clock } = instantParts(ms4, "local");
  return `${day === instantParts(nowMs(), "local").day ? "" : `${day.slice(5)} `}${clock.slice(0, 5)}`;
}
function relativeText(ms4) {
  const ago = nowMs() - ms4;
  if (Math.abs(ago) < 1e3) return t("time.now");
  const step = Math.abs(ago) < 6e4 ? 1e3 : 6e4;
  const rounded = step === 1e3 ? Math.round(ago / step) * step : Math.trunc(ago / step) * step;
  return rounded > 0 ? t("time.ago", { duration: durationText(rounded, true) }) : t("time.in", { duration: durationText(-rounded, true) });
}
function Time({ at: at2, isNext = false, isPast = false }) {
  useTick();
  const [mode] = usePref("times", "relative");
  if (!at2) return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  const ms4 = Date.parse(at2);
  if (Number.isNaN(ms4)) return html`<${Text} value=${at2} />`;
  const relative = isNext && ms4 < nowMs() ? t("time.now") : relativeText(ms4);
  const shown2 = mode === "relative" ? relative : instantText(ms4, mode);
  return html`<time class="num" datetime=${at2} title=${[relative, localText(ms4), utcText(ms4)].join(" · ")}>
      ${shown2}${isPast && mode === "relative" && html` <span class="muted">${minuteText(ms4)}</span>`}
    </time>`;
}
function Id({ id, href: href2 }) {
  const short = id.length > 13 ? `…${id.slice(-10)}` : id;
  return href2 ? html`<a class="id" href=${href2} title=${visible(id)}>${visible(short)}</a>` : html`<span class="id" title=${visible(id)}>${visible(short)}</span>`;
}
function State({ state }) {
  return html`<span class=${`state state-${state}`}><i aria-hidden="true"></i>${tOr(`state.${state}`, visible(state))}</span>`;
}
function Badge({ kind = "info", children }) {
  return html`<span class=${`badge badge-${kind}`}>${children}</span>`;
}

// ui/controls.js
function Button({ kind = "", class: more = "", opensDialog = false, children, ...rest }) {
  return html`<button
      type="button" class=${`button ${kind} ${more}`} aria-haspopup=${opensDialog ? "dialog" : void 0}
      ...${rest}>
      ${children}${opensDialog && "…"}
    </button>`;
}
function Copy({ text, label, kind = "" }) {
  const [state, setState] = E2("");
  const copy = async () => {
    const value = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(value);
      setState("done");
    } catch {
      setState(copyByHand(value) ? "done" : "failed");
    }
    setTimeout(() => setState(""), 1500);
  };
  const said = state === "done" ? t("copy.done") : state === "failed" ? t("copy.failed") : "";
  return html`<button type="button" class=${`button small ${kind}`} onClick=${copy}>
      ${said || label || t("copy")}<span class="sr" aria-live="polite">${said}</span>
    </button>`;
}
function CopyMenu({ children }) {
  return html`<details class="menu"><summary class="button small">${t("copy")}</summary><div class="menu-items">${children}</div></details>`;
}
function MoreMenu({ label, children }) {
  const close2 = (event) => {
    if (event.target instanceof Element && event.target.closest("button, a"))
      event.target.closest("details")?.removeAttribute("open");
  };
  return html`<details class="menu more-menu">
      <summary class="button small">${label}</summary><div class="menu-items" onClick=${close2}>${children}</div>
    </details>`;
}
function copyByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
  }
}
function untold(problem) {
  return problem.errors.filter((error) => !problem.detail.includes(error.msg));
}
function ErrorBox({ problem, onRetry }) {
  const [mode] = usePref("times", "relative");
  if (!problem) return null;
  const isSilent = problem.status === 0;
  const others = untold(problem);
  const { shownAsOfMs } = problem;
  return html`<div class=${`error-box ${shownAsOfMs === null ? "" : "over-old"}`} role="alert">
      <p>
        <strong>${isSilent ? t("error.no_answer") : visible(problem.title)}</strong>
        ${problem.detail && html` <${Text} value=${problem.detail} max=${600} />`}
      </p>
      ${others.length > 0 && html`<ul>${others.slice(0, 50).map((error) => html`<li><code>${visible(error.loc.join("."))}</code> <${Text} value=${error.msg} /></li>`)}</ul>`}
      ${problem.code && html`<p class="muted small">${problem.status || ""} <code>${visible(problem.code)}</code></p>`}
      ${shownAsOfMs !== null && html`<p>${t("fresh.shown", { time: clockText(shownAsOfMs - Date.now() + nowMs(), mode) })}</p>`}
      ${onRetry && html`<${Button} onClick=${onRetry}>${t("error.retry")}<//>`}
    </div>`;
}
function Empty({ title: title2, children, curl: curl2 }) {
  return html`<div class="empty"><p class="empty-title">${title2}</p>${children && html`<div>${children}</div>`}
    ${curl2 && html`<${Code} text=${curl2} />`}</div>`;
}
function Code({ text, label }) {
  return html`<div class="code"><pre tabindex="0" role="region" aria-label=${label || t("code")}><code>${pieces(
    text,
    true
  ).map(
    (piece, i2) => i2 % 2 ? html`<span class="escape">${piece}</span>` : piece
  )}</code></pre><${Copy} text=${text} /></div>`;
}
function Loading({ isLoading = true }) {
  return isLoading ? html`<p class="loading" role="status">${t("loading")}</p>` : null;
}
function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>
      <ul>
        ${tabs.map(
    (tab) => html`<li key=${tab.key}>
              <a
                href=${tab.href} class=${tab.kind ?? ""}
                aria-current=${tab.key === current ? "page" : void 0}>
                ${tab.label}
                ${tab.count !== void 0 && html` <span class="count"><${Num} value=${tab.count} />${tab.isAtLeast && "+"}</span>`}
              </a>
            </li>`
  )}
      </ul>
    </nav>`;
}
function Pager({ hasNext, hasBefore = false, onNext, onFirst, isLoading = false }) {
  if (!hasNext && !hasBefore) return null;
  return html`<nav class="pager" aria-label=${t("pager")}>
    ${hasBefore && html`<${Button} onClick=${onFirst}>${t("pager.first")}<//>`}
    <${Button} disabled=${!hasNext || isLoading} onClick=${onNext}>${t("pager.next")}<//></nav>`;
}
function Bar({ value, of: of2, label, kind = "info" }) {
  const share = of2 > 0 ? Math.min(1, value / of2) : 0;
  return html`<span
      class=${`bar bar-${kind}`} role="img" aria-label=${`${label}: ${number(value)} / ${number(of2)}`}
      title=${`${number(value)} / ${number(of2)}`}>
      <span style=${{ width: `${(share * 100).toFixed(1)}%` }}></span>
    </span>`;
}

// ui/icons.js
var PATHS = {
  overview: "M2 9.5 8 3l6 6.5M4 8v5.5h3V10h2v3.5h3V8",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h11",
  failures: "M8 2.5 14 13.5H2ZM8 6.5v3.2M8 11.4v.4",
  names: "M2.5 8.5v-6h6l5 5-6 6ZM5.5 5.5h.1",
  batches: "M2.500 5 8 2.500 13.500 5 8 7.500ZM2.500 8 8 10.500 13.500 8M2.500 11 8 13.500 13.500 11",
  constraints: "M2.5 3h11L9.5 8.5v4l-3 1.5V8.5Z",
  definitions: "M2.500 4h11v9.500h-11ZM2.500 7h11M5.500 2v3.500M10.500 2v3.500M8 9v1.800l1.500.9",
  calendars: "M2.500 4h11v9.500h-11ZM2.500 7h11M5.500 2v3.500M10.500 2v3.500M5.500 10.300l1.700 1.700 3.300-3",
  events: "M8 2.500a3.500 3.500 0 0 0-3.500 3.500v3L3 11.500h10L11.500 9V6A3.500 3.500 0 0 0 8 2.500ZM6.500 13.500h3",
  challenges: "M2.500 3h11v8h-6l-3 2.500V11h-2ZM5.500 7l1.700 1.700L10.500 5.500",
  notices: "M2.500 4.500h11v7.500h-11ZM2.500 5l5.500 4 5.500-4",
  workers: "M3 3.5h10v6H3ZM6 13h4M8 9.5V13",
  masters: "M8 2.5 9.7 6l3.8.5-2.8 2.7.7 3.8L8 11.2 4.6 13l.7-3.8L2.5 6.5 6.300 6Z",
  namespaces: "M2.500 2.500h4.500v4.500h-4.500ZM9 2.500h4.500v4.500h-4.500ZM2.500 9h4.500v4.500h-4.500ZM9 9h4.500v4.500h-4.500Z",
  incidents: "M2.500 8.500h2.500l2-5 3 9 2-4h1.500",
  targets: "M8 2.500a5.500 5.500 0 1 0 0 11a5.500 5.500 0 1 0 0-11M8 5.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 1 0 0-5M8 8h.1",
  enqueue: "M8 3v10M3 8h10",
  audit: "M4 2.500h8v11H4ZM6 5.500h4M6 8h4M6 10.500h2.500",
  settings: "M2.5 5h6M11.500 5h2M2.500 11h2M7.500 11h6M8.500 5a1.500 1.500 0 1 0 3 0a1.500 1.500 0 1 0-3 0M4.500 11a1.500 1.500 0 1 0 3 0a1.500 1.500 0 1 0-3 0",
  access: "M10.500 2.500a3 3 0 1 1-2.200 5L3 12.800V14h2.500v-1.500H7V11l1.800-1.800M11 5h.1",
  personal_data: "M8 3a2.500 2.500 0 1 0 0 5a2.500 2.500 0 1 0 0-5M3 13.500c.500-3 2.500-4 5-4s4.500 1 5 4",
  pause: "M5.500 3.500v9M10.500 3.500v9",
  resume: "M5 3.500 12 8l-7 4.500Z",
  run: "M9 2 4 9h3.500L7 14l5-7H8.500Z",
  keys: "M5.800 6a2.200 2.200 0 1 1 3.200 2c-.7.400-1 .8-1 1.600M8 12.200v.1",
  menu: "M2.500 4h11M2.500 8h11M2.500 12h11",
  check: "M3 8.500 6.500 12 13 4.500",
  close: "M3.500 3.500l9 9M12.500 3.500l-9 9",
  auto: "M8 2.500a5.500 5.500 0 1 0 0 11V2.500a5.500 5.500 0 0 1 0 11",
  light: "M8 5.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 1 0 0-5M8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1",
  dark: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500Z",
  times: "M8 3.500V8l3 2M2.500 8a5.500 5.500 0 1 0 11 0a5.500 5.500 0 1 0-11 0"
};
function Icon({ name }) {
  const path = PATHS[name];
  if (!path) return null;
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d=${path} /></svg>`;
}
var Logo = () => html`<svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" fill="#1d5fd0" />
      <path d="M8 10h16M8 16h11M8 22h6" stroke="#fff" stroke-width="3" stroke-linecap="round" />
      <circle cx="23" cy="20" r="4" fill="#7ee0a6" />
    </svg>`;

// ui/dialogs.js
function Dialog({ title: title2, onClose, children, isWide = false }) {
  const ref = j(
    /** @type {HTMLDialogElement | null} */
    null
  );
  const id = J2();
  V2(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return html`<dialog
      ref=${ref} class=${isWide ? "wide" : ""} aria-labelledby=${id} onCancel=${(e2) => {
    e2.preventDefault();
    onClose();
  }} onMouseDown=${(e2) => {
    if (e2.target === ref.current) onClose();
  }}>
      <div class="dialog">
        <header>
          <h2 id=${id}>${title2}</h2>
          <button type="button" class="icon-button" aria-label=${t("close")} onClick=${onClose}>
            <${Icon} name="close" />
          </button>
        </header>
        ${children}
      </div>
    </dialog>`;
}
var TOAST_MS = 6e3;
var UNDO_MS = 15e3;
var TYPED_FROM = 1e3;
function ConfirmCount({
  title: title2,
  count,
  counted = t("confirm.count", { count }),
  isAtLeast = false,
  isAlways = false,
  isReady = true,
  verb,
  kind = "danger",
  onConfirm,
  onClose,
  children
}) {
  const { problem, isBusy, confirm } = useConfirmation(onConfirm, onClose);
  const [typed, setTyped] = E2("");
  const isTyped = count <= TYPED_FROM || typed.replace(/[^0-9]/g, "") === String(count);
  const isPossible = isReady && isTyped && !isBusy && (count > 0 || isAlways);
  const isSafe = kind !== "danger";
  return html`<${Dialog} title=${title2} onClose=${onClose}>
      <p class="confirm-count"><strong>${isAtLeast && "≥ "}<${Num} value=${count} /></strong> ${counted}</p>
      ${children}
      ${count > TYPED_FROM && html`<label class="field">
            ${t("confirm.type", { count })}
            <input
              name="confirm_count" inputmode="numeric" autocomplete="off" value=${typed}
              onInput=${(e2) => setTyped(e2.target.value)} />
          </label>`}
      <${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus=${!isSafe} onClick=${onClose}>${t("confirm.back")}<//>
        <${Button} kind=${kind} disabled=${!isPossible} autofocus=${isSafe} onClick=${confirm}>
          ${count > 1 || isAtLeast ? `${verb} (${isAtLeast ? "≥ " : ""}${number(count)})` : verb}
        <//>
      </footer>
    <//>`;
}
function useConfirmation(onConfirm, onClose) {
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [isBusy, setBusy] = E2(false);
  const confirm = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  return { problem, isBusy, confirm };
}
function Sure({ title: title2, verb, onConfirm, onClose, isReady = true, children }) {
  const { problem, isBusy, confirm } = useConfirmation(onConfirm, onClose);
  return html`<${Dialog} title=${title2} onClose=${onClose}>
      ${children}<${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" disabled=${isBusy || !isReady} onClick=${confirm}>${verb}<//>
      </footer>
    <//>`;
}
var toasters = /* @__PURE__ */ new Set();
var toastId = 0;
function toast(text, kind = "ok", undo) {
  toastId += 1;
  for (const show2 of toasters) show2({ id: toastId, text, kind, undo });
}
function Toasts() {
  const [all, setAll] = E2(
    /** @type {Toast[]} */
    []
  );
  W2(() => {
    const show2 = (one) => {
      setAll((old) => [...old.slice(-3), one]);
      setTimeout(
        () => setAll((old) => old.filter((other) => other.id !== one.id)),
        one.undo ? UNDO_MS : TOAST_MS
      );
    };
    toasters.add(show2);
    return () => void toasters.delete(show2);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${all.map(
    (one) => html`<p key=${one.id} class=${`toast ${one.kind}`}>${one.text}${one.undo && html` <${Button} class="small" onClick=${() => {
      setAll((old) => old.filter((other) => other.id !== one.id));
      void one.undo?.();
    }}>${t("undo")}<//>`}</p>`
  )}</div>`;
}
async function attempt(act, done) {
  try {
    await act();
    if (done) toast(done);
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const fields = untold(error).map((field) => `${field.loc.join(".")}: ${field.msg}`).join("; ");
    toast(
      visible(
        [error.status ? error.title : t("error.no_answer"), error.detail, fields].filter(Boolean).join(" · ")
      ),
      "bad"
    );
    return false;
  }
}

// ui/forms.js
function useForm(document2, valuesOf10) {
  const [state, setState] = E2(() => {
    const opened2 = valuesOf10(document2);
    return { base: document2, opened: opened2, values: opened2, differences: (
      /** @type {Difference[]} */
      []
    ) };
  });
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [isBusy, setBusy] = E2(false);
  const newest = j(state);
  const put2 = (part) => {
    newest.current = { ...newest.current, ...part };
    setState(newest.current);
  };
  const set = (changes) => put2({ values: { ...newest.current.values, ...changes } });
  const names = Object.keys(state.values);
  return {
    values: state.values,
    changed: names.filter((name) => state.values[name] !== state.opened[name]),
    base: state.base,
    problem,
    setProblem,
    isBusy,
    differences: state.differences,
    set,
    ...inputsOf(state.values, set),
    run: async (act) => {
      setBusy(true);
      setProblem(null);
      try {
        return await act(newest.current.values);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        setProblem(error);
        return void 0;
      } finally {
        setBusy(false);
      }
    },
    compare: (theirDocument) => {
      const theirs = valuesOf10(theirDocument);
      const { opened: opened2, values: values2 } = newest.current;
      const differences2 = differencesOf(opened2, values2, theirs);
      const taken = differences2.filter((one) => one.choice === "theirs").map((one) => [one.name, one.theirs]);
      put2({
        base: theirDocument,
        opened: theirs,
        values: { ...values2, ...Object.fromEntries(taken) },
        differences: differences2
      });
      return differences2;
    },
    choose: (name, choice) => {
      const differences2 = newest.current.differences.map(
        (one2) => one2.name === name ? { ...one2, choice } : one2
      );
      const one = differences2.find((other) => other.name === name);
      if (one) put2({ differences: differences2, values: { ...newest.current.values, [name]: one[choice] } });
    },
    reopen: (next) => {
      const opened2 = valuesOf10(next);
      put2({ base: next, opened: opened2, values: opened2, differences: [] });
      setProblem(null);
    }
  };
}
var inputsOf = (values2, set) => ({
  input: (name) => ({
    name,
    value: values2[name] ?? "",
    onInput: (event) => set({ [name]: event.target.value })
  }),
  check: (name) => ({
    name,
    type: "checkbox",
    checked: values2[name] === "yes",
    onChange: (event) => set({ [name]: event.target.checked ? "yes" : "" })
  })
});
var differencesOf = (opened2, values2, theirs) => Object.keys(theirs).filter((name) => theirs[name] !== opened2[name] && theirs[name] !== values2[name]).map((name) => {
  const mine = values2[name] ?? "";
  const choice = mine === opened2[name] ? "theirs" : "mine";
  return { name, opened: opened2[name] ?? "", mine, theirs: theirs[name] ?? "", choice };
});
function Field({ label, hint, problem, path, children }) {
  const id = J2();
  const errors = path ? fieldErrors(problem, path) : [];
  const described = [hint && `${id}-hint`, errors.length > 0 && `${id}-error`].filter(Boolean).join(" ");
  return html`<div class=${`field ${errors.length ? "invalid" : ""}`}><label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described || void 0, "aria-invalid": errors.length > 0 ? "true" : void 0 })}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${errors.length > 0 && html`<p class="field-error" id=${`${id}-error`}>${visible(errors.join("; "))}</p>`}</div>`;
}
function fieldErrors(problem, path) {
  return (problem?.errors ?? []).filter((error) => {
    const loc = error.loc.join(".").replace(/^(body|query)\./, "");
    return loc === path || loc.startsWith(path + ".");
  }).map((error) => error.msg);
}
function FormMore({ form, names, problem, label, children }) {
  const hasValue = names.some((name) => form.values[name]);
  const hasProblem = names.some((name) => fieldErrors(problem, name).length > 0);
  const [isOpen2, setOpen] = E2(hasValue);
  W2(() => {
    if (hasValue || hasProblem) setOpen(true);
  }, [hasValue, hasProblem]);
  return html`<details
      class="more" open=${isOpen2}
      onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>${label}</summary><div class="stack">${children}</div>
    </details>`;
}
function FormField({
  form,
  name,
  label,
  hint,
  path,
  problem,
  as: tag = "input",
  children,
  ...attributes
}) {
  return html`<${Field} label=${label} hint=${hint} problem=${problem ?? form.problem} path=${path ?? name}>${(a2) => html`<${tag} autocomplete="off" ...${a2} ...${attributes} ...${form.input(name)}>${children}<//>`}<//>`;
}
var JsonHint = () => html`${t("enqueue.argument.hint")} <code>${'{"$bin": "…"}'}</code> <code>${'{"$ext": [1, "…"]}'}</code>`;
function FormCheck({ form, name, children, ...attributes }) {
  return html`<label class="check"><input ...${attributes} ...${form.check(name)} /> ${children}</label>`;
}

// core/resource.js
function useResource(load4, deps, { events = [], leastMs = 1e3, everyMs = 5e3, pollMs = 0, isHeld = false } = {}) {
  const [state, setState] = E2(
    /** @type {Loaded<T>} */
    { data: null, problem: null, isLoading: true }
  );
  const [isStale, setStale] = E2(false);
  const held = j(isHeld);
  held.current = isHeld;
  const now = j(
    /** @type {() => Promise<void>} */
    (async () => {
    })
  );
  const loader = j(load4);
  loader.current = load4;
  W2(() => {
    const age = ageOf(events.length > 0);
    const loads = loadsOf(loader, held, leastMs, age, setState, setStale);
    now.current = loads.run;
    setState((old) => ({ data: old.data, problem: null, isLoading: true }));
    void loads.run();
    const ends = events.map((event) => listen(event, loads.soon));
    ends.push(listen("resumed", loads.atOnce));
    const poll = setInterval(() => {
      const status2 = liveStatus();
      if (status2 !== "paused" && (pollMs || status2 !== "live" || age.hasFailed())) loads.soon();
    }, pollMs || everyMs);
    return () => {
      loads.end();
      clearInterval(poll);
      for (const end of ends) end();
    };
  }, deps);
  return { ...state, isStale, reload: () => now.current() };
}
function ageOf(isTold3) {
  let asOfMs2 = null;
  let isCurrent = false;
  let hasFailed2 = false;
  const self = {};
  return {
    hasFailed: () => hasFailed2,
    asked: () => {
      if (isCurrent && asOfMs2 !== null) asOfMs2 = Math.max(asOfMs2, streamAsOfMs() ?? 0);
      isCurrent = false;
    },
    /** @param {number} askedMs */
    loaded: (askedMs) => {
      asOfMs2 = askedMs;
      isCurrent = isTold3;
      hasFailed2 = false;
      note(self, false);
    },
    /** @returns {number | null} How old the data are that stay. */
    failed: () => {
      hasFailed2 = true;
      note(self, asOfMs2 !== null);
      return asOfMs2;
    },
    end: () => note(self, false)
  };
}
function loadsOf(loader, held, leastMs, age, setState, setStale) {
  let aborter = new AbortController();
  let isOver = false;
  let lastMs = 0;
  let waiting;
  let isRunning = false;
  let isWanted = false;
  const dropWait = () => {
    clearTimeout(waiting);
    waiting = void 0;
  };
  const run = async () => {
    dropWait();
    aborter.abort();
    aborter = new AbortController();
    const { signal } = aborter;
    const askedMs = Date.now();
    lastMs = askedMs;
    isRunning = true;
    isWanted = false;
    age.asked();
    try {
      const data = await loader.current(signal);
      if (isOver || signal.aborted) return;
      age.loaded(askedMs);
      setStale(false);
      setState(() => ({ data, problem: null, isLoading: false }));
    } catch (error) {
      if (isOver || signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      error.shownAsOfMs = age.failed();
      setState((old) => ({ data: old.data, problem: error, isLoading: false }));
    } finally {
      if (!signal.aborted) {
        isRunning = false;
        if (isWanted) soon();
      }
    }
  };
  const soon = () => {
    if (document.hidden || isOver) return;
    if (held.current) return setStale(true);
    if (isRunning) isWanted = true;
    else waiting ??= setTimeout(runUnlessHeld, Math.max(0, lastMs + leastMs - Date.now()));
  };
  const runUnlessHeld = () => {
    waiting = void 0;
    if (held.current) setStale(true);
    else void run();
  };
  const atOnce = () => {
    lastMs = 0;
    dropWait();
    soon();
  };
  const end = () => {
    isOver = true;
    age.end();
    aborter.abort();
    clearTimeout(waiting);
  };
  return { run, soon, atOnce, end };
}

// core/states.js
var STATES = {
  ready: {
    label: "Ready",
    phase: "waiting",
    actions: ["cancel", "set_priority", "delete"]
  },
  running: {
    label: "Running",
    phase: "running",
    actions: ["cancel"]
  },
  awaiting_callback: {
    label: "Awaiting callback",
    phase: "running",
    actions: ["cancel"]
  },
  retrying: {
    label: "Retrying",
    phase: "waiting",
    actions: ["cancel", "run", "set_priority", "delete"]
  },
  scheduled: {
    label: "Scheduled",
    phase: "waiting",
    actions: ["cancel", "run", "set_priority", "delete"]
  },
  awaiting_jobs: {
    label: "Awaiting jobs",
    phase: "waiting",
    actions: ["cancel", "set_priority", "delete"]
  },
  failed: {
    label: "Failed",
    phase: "finished",
    actions: ["retry", "delete"]
  },
  succeeded: {
    label: "Succeeded",
    phase: "finished",
    actions: ["retry", "delete"]
  },
  discarded: {
    label: "Discarded",
    phase: "finished",
    actions: ["retry", "delete"]
  },
  canceled: {
    label: "Canceled",
    phase: "finished",
    actions: ["retry", "delete"]
  },
  skipped: {
    label: "Skipped",
    phase: "finished",
    actions: ["retry", "delete"]
  }
};
var OUTCOMES = (
  /** @type {const} */
  ["succeeded", "discarded", "failed", "canceled", "skipped"]
);
var isIn = (state, phase) => STATES[state ?? ""]?.phase === phase;
var admits = (state, action) => STATES[state]?.actions.some((one) => one === action) ?? false;

// jobs/error_kinds.js
function errorKinds(jobs) {
  const kinds = /* @__PURE__ */ new Map();
  for (const { name, error: text } of jobs) {
    const error = (text ?? "").replace(/\d+/g, "<n>");
    const key = JSON.stringify([name, error]);
    const kind = kinds.get(key) ?? { name, error, count: 0 };
    kinds.set(key, { ...kind, count: kind.count + 1 });
  }
  return [...kinds.values()].sort((one, other) => other.count - one.count);
}

// jobs/action_kinds.js
var MAX_READ = 100;
var MAX_SHOWN = 6;
var queryOf = (filter) => Object.fromEntries(
  Object.entries(filter).map(([key, value]) => [
    key,
    typeof value === "object" ? JSON.stringify(value) : String(value)
  ])
);
function ActionKinds({ action, filter, dry }) {
  const query = filter && queryOf(filter);
  const { data } = useResource(
    (signal) => query ? get("api/jobs", { ...query, include: "error", limit: MAX_READ }, signal) : Promise.resolve(null),
    [JSON.stringify(query)]
  );
  if (query && !data) return html`<p class="muted">${t("loading")}</p>`;
  const touched = data ? data.jobs.filter((job) => admits(job.state, action)) : dry.examples;
  const kinds = errorKinds(touched);
  if (kinds.length === 0) return null;
  const rest = kinds.slice(MAX_SHOWN).reduce((sum2, kind) => sum2 + kind.count, 0);
  return html`<div class="examples">
      ${dry.count > touched.length && html`<p class="muted">${t("action.kinds.of", { count: touched.length })}</p>`}
      <ul class="plain">
        ${kinds.slice(0, MAX_SHOWN).map(
    (kind) => html`<li key=${`${kind.name} ${kind.error}`}>
                <span class="num">${number(kind.count)} ×</span> <strong><${Text} value=${kind.name} max=${60} /></strong>${" "}
                <span class="muted"><${Text} value=${kind.error} max=${120} /></span>
              </li>`
  )}
        ${rest > 0 && html`<li class="muted">${t("action.kinds.rest", { count: rest })}</li>`}
      </ul>
    </div>`;
}

// jobs/actions.js
var ACTIONS = ["cancel", "retry", "run", "set_priority", "delete"];
var DANGEROUS = ["cancel", "delete"];
var TYPING_MS = 300;
var WATCHED_MS = 6e4;
var POLL_MS = 2e3;
function ActionDialog({ action, target, isRecounted = false, onClose, onBegun }) {
  const form = useForm(null, () => ({ priority: "0", rate: "", share: "" }));
  const { priority = "", rate, share } = form.values;
  const title2 = t(`action.${action}.title`);
  const wanted = { action, ...target, ...action === "set_priority" && { priority: Number(priority) } };
  const isPriority = action !== "set_priority" || /^-?\d+$/.test(priority.trim());
  const counted = JSON.stringify([action, target, action === "set_priority" ? priority.trim() : null]);
  const { dry, problem, ask: ask3, show: show2 } = useDryRun(wanted, counted, isPriority);
  if (!dry) {
    return html`<${Dialog} title=${title2} onClose=${onClose}>
        <${ErrorBox} problem=${problem} />${!problem && html`<p role="status">${t("action.counting")}</p>`}
        <footer><${Button} onClick=${onClose}>${t("cancel")}<//></footer>
      <//>`;
  }
  const begin = async () => {
    const again = isRecounted ? await ask3() : dry;
    if (again.count !== dry.count) {
      show2(again);
      const detail = t("action.recounted", { before: dry.count, count: again.count });
      throw new Problem(409, { title: t("action.recounted.title"), detail });
    }
    await post("api/jobs/actions", {
      ...wanted,
      ...rate && { rate_per_s: Number(rate) },
      ...action === "retry" && share && { stop_at_failure_share: Number(share) / 100 },
      ...isRecounted && again.is_exact && { at_most: again.count }
    });
    for (const tell2 of begun) tell2();
    toast(t("action.begun", { action: t(`action.${action}`), count: dry.count }));
    onBegun();
  };
  return html`<${ConfirmCount}
      title=${title2} count=${dry.count} isAtLeast=${!dry.is_exact} verb=${t(`action.${action}`)}
      kind=${DANGEROUS.includes(action) ? "danger" : "primary"} isReady=${dry.of === counted}
      onClose=${onClose} onConfirm=${begin}>
      <p>${t(`action.${action}.text`)}</p>
      ${"filter" in target && html`<p class="muted">
            ${t("action.all_that_match")} ${Object.entries(target.filter).map(
    ([key, value]) => html`<span class="chip">${t(`filter.${key}`)}: <${Text} value=${typeof value === "object" ? toJson(value) : value} max=${80} /></span> `
  )}
          </p>`}
      <${ActionKinds} action=${action} filter=${"filter" in target ? target.filter : null} dry=${dry} />
      <${ActionFields} action=${action} count=${dry.count} form=${form} problem=${problem} />
    <//>`;
}
function useDryRun(wanted, counted, isComplete) {
  const [dry, setDry] = E2(
    /** @type {JobActionPreview & {of: string} | null} */
    null
  );
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const ask3 = () => (
    /** @type {Promise<JobActionPreview>} */
    post("api/jobs/actions", { ...wanted, dry_run: true })
  );
  const show2 = (answer) => setDry({ ...answer, of: counted });
  W2(() => {
    if (!isComplete) return void 0;
    let isOver = false;
    const count = () => ask3().then(
      (answer) => {
        if (isOver) return;
        show2(answer);
        setProblem(null);
      },
      (error) => {
        if (!isOver) setProblem(error instanceof Problem ? error : new Problem(0, {}));
      }
    );
    const timer2 = setTimeout(count, dry ? TYPING_MS : 0);
    return () => {
      isOver = true;
      clearTimeout(timer2);
    };
  }, [counted]);
  return { dry, problem, ask: ask3, show: show2 };
}
function ActionFields({ action, count, form, problem }) {
  return html`<div class="form-grid">
      ${action === "set_priority" && html`<${FormField}
            form=${form} name="priority" problem=${problem} label=${t("job.priority")}
            hint=${t("job.priority.hint")} type="number" step="1" />`}
      ${count > 100 && html`<${FormField}
            form=${form} name="rate" path="rate_per_s" label=${t("action.rate")} hint=${t("action.rate.hint")}
            type="number" min="0.1" step="any" />`}
      ${action === "retry" && count > 1 && html`<${FormField}
            form=${form} name="share" path="stop_at_failure_share" label=${t("action.stop_share")}
            hint=${t("action.stop_share.hint")} type="number" min="1" max="100" step="1" />`}
    </div>`;
}
var begun = /* @__PURE__ */ new Set();
function useActionEnds(onEnd) {
  const latest2 = j(onEnd);
  latest2.current = onEnd;
  W2(
    () => listen("action", (action) => {
      if (action.state !== "running") latest2.current();
    }),
    []
  );
}
function ActionsUnderWay({ mayOperate }) {
  const all = useActions();
  const [hidden, setHidden] = E2(
    /** @type {Set<string>} */
    /* @__PURE__ */ new Set()
  );
  const shown2 = all.filter(
    (action) => !hidden.has(action.id) && (action.state === "running" || Date.now() - Date.parse(action.finished_at ?? "") < WATCHED_MS)
  ).sort((a2, b2) => b2.created_at.localeCompare(a2.created_at));
  return html`<div class="under-way" role="status" aria-live="polite">
      ${shown2.map(
    (action) => html`<${ActionUnderWay}
              key=${action.id} action=${action} mayOperate=${mayOperate}
              onHide=${() => setHidden(/* @__PURE__ */ new Set([...hidden, action.id]))} />`
  )}
    </div>`;
}
function useActions() {
  const [all, setAll] = E2(
    /** @type {Record<string, JobAction>} */
    {}
  );
  const take = (actions2) => setAll((old) => {
    const isOlder = (action) => action.state === "running" && (old[action.id] ?? action).state !== "running";
    const newer2 = actions2.filter((action) => !isOlder(action));
    return { ...old, ...Object.fromEntries(newer2.map((action) => [action.id, action])) };
  });
  W2(() => {
    const fetchAll = () => get("api/jobs/actions").then(
      (answer) => take(answer.actions ?? []),
      () => {
      }
    );
    begun.add(fetchAll);
    const ends = [
      listen("action", (action) => take([action])),
      listen("resumed", fetchAll),
      () => begun.delete(fetchAll)
    ];
    const poll = setInterval(() => {
      if (!document.hidden && liveStatus() !== "live") void fetchAll();
    }, POLL_MS);
    return () => {
      clearInterval(poll);
      for (const end of ends) end();
    };
  }, []);
  return Object.values(all);
}
function ActionUnderWay({ action, mayOperate, onHide }) {
  const isRunning = action.state === "running";
  const most = action.matched ?? action.ids_count ?? action.looked_at;
  return html`<div class="card action">
      <${Badge} kind=${isRunning ? "info" : action.state === "done" ? "ok" : "warn"}>
        ${tOr(`action.state.${action.state}`, visible(action.state))}
      <//>
      <strong>${tOr(`action.${action.action}`, visible(action.action))}</strong>
      <span>
        ${t("action.progress", { done: action.done })}${most > 0 && ` / ${number(most)}`}
        ${action.refused > 0 && html` · ${t("action.refused", { count: action.refused })}`}
        ${action.failed_again !== null && action.failed_again > 0 && html` · ${t("action.failed_again", { count: action.failed_again })}`}
      </span>
      ${isRunning && most > 0 && html`<${Bar} value=${action.done + action.refused} of=${most} label=${t("action.bar")} />`}
      ${action.message && html`<span class="muted"><${Text} value=${action.message} /></span>`}
      ${isRunning && mayOperate ? html`<${Button}
              class="small"
              onClick=${() => attempt(() => post(`api/jobs/actions/${action.id}/cancel`), t("action.stopped"))}>
              ${t("action.stop")}
            <//>` : !isRunning && html`<button type="button" class="icon-button" aria-label=${t("close")} onClick=${onHide}>✕</button>`}
    </div>`;
}

// operations/runbooks.js
var RUNBOOKS = {
  calendar_ends: "a-calendar-ends",
  dead_worker: "a-worker-is-detached",
  durability: "the-store-gives-less-durability-than-configured",
  duty: "a-side-duty-fails",
  failing: "many-jobs-fail",
  full: "a-constraint-holds-jobs-back",
  growth: "the-backlog-grows",
  late_definition: "a-definition-is-late",
  late_leader: "the-lead-is-late",
  latency: "the-store-is-slow",
  memory: "the-store-fills-up",
  missed_instant: "an-instant-of-a-definition-was-missed",
  no_leader: "no-master-leads",
  no_worker: "jobs-wait-and-no-worker-is-there",
  orphan: "no-worker-runs-this-name",
  pause: "something-is-paused",
  paused: "something-is-paused",
  paused_values: "something-is-paused",
  rising: "many-jobs-fail",
  skipping_definition: "a-definition-skips-its-instants",
  stale_masters: "a-master-is-silent",
  stale_workers: "workers-are-silent",
  store: "a-master-refuses-new-jobs",
  store_away: "the-store-does-not-answer",
  wait: "a-job-waits-long"
};

// operations/runbook_link.js
var SECTIONS = RUNBOOKS;
function RunbookLink({ code }) {
  if (!SECTIONS[code]) return null;
  return html`<a class="runbook" href=${`runbooks.html#${SECTIONS[code]}`} target="_blank" rel="noreferrer">
      <span class="fault-act">${t("fault.runbook")}</span><span aria-hidden="true"> ↗</span>
    </a>`;
}

// shell/freshness_line.js
var LOST_GRACE_MS = 1500;
var SILENT_MS = 8e3;
var STORE_AWAY = { code: (
  /** @type {const} */
  "store_away"
) };
function useOldness() {
  const { isOld, ageMs } = useFreshness();
  return isOld ? t("fresh.old", { duration: durationText(steadyMs(ageMs ?? 0)) }) : "";
}
function Connection() {
  const status2 = useLiveStatus();
  const { isOld, isPartOld } = useFreshness();
  const oldness = useOldness();
  const isLive = status2 === "live";
  const kind = isLive && !isOld && !isPartOld ? "ok" : isLive || status2 === "lost" ? "bad" : "off";
  const [word, title2] = isLive && isOld ? [oldness, t("fresh.old.title")] : isLive && isPartOld ? [t("fresh.part"), t("fresh.part.title")] : [t(`live.${status2}`), t(`live.${status2}.title`)];
  return html`<span class=${`connection ${kind}`} title=${title2}><i aria-hidden="true"></i><span class="wide-only">${word}</span></span>`;
}
function FreshnessLine() {
  const { ageMs, asOf: asOf2, isOld, fault: fault2 } = useFreshness();
  const isLost = useLasting(useLiveStatus() === "lost");
  const [mode] = usePref("times", "relative");
  const since = asOf2 ? ` ${t("fresh.since", { time: clockText(Date.parse(asOf2), mode) })}` : "";
  return html`<div role="status" aria-live="polite">
      ${fault2 ? html`<p class="banner bad">
              <${Badge} kind="bad">${t("fault.bad")}<//> <span>
                ${t("fresh.store")}${since} <span class="muted">${visible(fault2.detail)}</span>
              </span> <${RunbookLink} code=${STORE_AWAY.code} />
            </p>` : isLost ? html`<p class="banner"><span>${t("live.banner")}${since}</span></p>` : isOld && (ageMs ?? 0) > SILENT_MS && liveStatus() === "live" && html`<p class="banner"><span>${t("fresh.silent")}${since}</span></p>`}
    </div>`;
}
function useLasting(is2) {
  const [isLasting, setLasting] = E2(false);
  W2(() => {
    setLasting(false);
    if (!is2) return void 0;
    const timer2 = setTimeout(() => setLasting(true), LOST_GRACE_MS);
    return () => clearTimeout(timer2);
  }, [is2]);
  return is2 && isLasting;
}

// core/namespaces.js
var place = document.baseURI.replace(/[?#].*$/, "").match(/\/ns\/([^/]+)\/[^/]*$/);
var namespace = place?.[1] ?? "";
var DEFAULT = "default";
var ofInstallation = (path) => (namespace ? "../../" : "") + path;
var addressOf = (name, hash = "") => `${ofInstallation(name === DEFAULT ? "" : `ns/${encodeURIComponent(name)}/`) || "./"}${hash}`;

// core/router.js
var PAGES = (
  /** @type {const} */
  [
    "overview",
    "jobs",
    "job",
    "names",
    "failures",
    "batches",
    "constraints",
    "definitions",
    "calendars",
    "events",
    "challenges",
    "notices",
    "targets",
    "workers",
    "masters",
    "namespaces",
    "incidents",
    "personal_data",
    "audit",
    "settings",
    "access",
    "account",
    "enqueue",
    "login"
  ]
);
var OF_INSTALLATION = ["namespaces"];
function parseRoute(hash) {
  const [path = "", search2 = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const name = path === "" ? "overview" : path;
  const page = PAGES.find((known2) => known2 === name) ?? null;
  const query = /* @__PURE__ */ Object.create(null);
  for (const [key, value] of new URLSearchParams(search2)) query[key] = value;
  return { page, query };
}
var isOfInstallation = (page) => page !== null && OF_INSTALLATION.includes(page);
var isElsewhere = (page) => namespace !== "" && isOfInstallation(page);
function href(page, query = {}) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== void 0 && value !== "") params.set(key, String(value));
  }
  const search2 = params.toString();
  return `${isElsewhere(page) ? ofInstallation("") : ""}#/${page}${search2 ? "?" + search2 : ""}`;
}
function go(page, query = {}, { replace = false } = {}) {
  const target = href(page, query);
  if (isElsewhere(page)) location.assign(target);
  else if (!replace) location.hash = target;
  else if (location.hash !== target) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}
function useRoute() {
  const [hash, setHash] = E2(location.hash);
  W2(() => {
    const change2 = () => setHash(location.hash);
    addEventListener("hashchange", change2);
    change2();
    return () => removeEventListener("hashchange", change2);
  }, []);
  return parseRoute(hash);
}

// ui/keys.js
var keyLayers = [];
var keysInForce = () => keyLayers;
function useKeys(keys) {
  const layer = j({ keys });
  layer.current.keys = keys;
  W2(() => {
    const own = layer.current;
    keyLayers.push(own);
    return () => void keyLayers.splice(keyLayers.indexOf(own), 1);
  }, []);
}

// namespaces/known.js
var known = [];
var listeners4 = /* @__PURE__ */ new Set();
async function loadNamespaces() {
  const path = (
    /** @type {"api/namespaces"} */
    ofInstallation("api/namespaces")
  );
  try {
    known = (await get(path)).namespaces;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 0 || error.status >= 500) return;
    known = [];
  }
  for (const listener of listeners4) listener(known);
}
function useNamespaces() {
  const [namespaces, setNamespaces] = E2(known);
  W2(() => {
    listeners4.add(setNamespaces);
    setNamespaces(known);
    return () => void listeners4.delete(setNamespaces);
  }, []);
  return namespaces;
}

// namespaces/switcher.js
function Switcher({ onOpen }) {
  const hasOthers = useNamespaces().length > 1;
  const open = () => {
    onOpen();
    void loadNamespaces();
  };
  useKeys(hasOthers ? { "g N": open } : {});
  const name = visible(namespace || DEFAULT);
  if (!hasOthers)
    return namespace ? html`<span class="namespace" title=${t("namespaces.one")}>${name}</span>` : null;
  return html`<button
      type="button" class="button small namespace" aria-haspopup="dialog"
      aria-label=${t("namespaces.switch.now", { name })} title=${t("namespaces.switch")} onClick=${open}>
      ${name} ▾
    </button>`;
}
var pageElsewhere = (page) => page === null || page === "login" || isOfInstallation(page) ? "#/overview" : `#/${page === "job" ? "jobs" : page}`;
function NamespaceChoice({ page, onClose }) {
  const namespaces = useNamespaces();
  const [text, setText] = E2("");
  const wanted = text.trim().toLowerCase();
  const found = namespaces.filter(({ name, title: title2 }) => `${name}
${title2}`.toLowerCase().includes(wanted));
  const first = found.find((one) => one.name === wanted) ?? found[0];
  const addressIn = (name) => addressOf(name, pageElsewhere(page));
  const submit = (event) => {
    event.preventDefault();
    if (first) location.assign(addressIn(first.name));
  };
  return html`<${Dialog} title=${t("namespaces.switch")} onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <input
          type="search" name="namespace" autofocus aria-label=${t("namespaces.find")}
          placeholder=${t("namespaces.find")} maxlength="100" autocomplete="off" autocapitalize="none"
          spellcheck=${false} value=${text}
          onInput=${(event) => setText(event.target.value)} />
        <ul class="switcher" aria-label=${t("nav.namespaces")}>
          ${found.map(
    ({ name, title: title2, state }) => html`<li key=${name}>
                  <a
                    href=${addressIn(name)}
                    aria-current=${name === (namespace || DEFAULT) ? "true" : void 0} onClick=${onClose}>
                    ${visible(name)}
                  </a> <span class="muted">${visible(title2)}</span> ${state !== "open" && html`<${Badge} kind="off">${t(`namespaces.state.${state}`)}<//>`}
                </li>`
  )}
        </ul>
        ${found.length === 0 && html`<p class="muted" role="status">${t("namespaces.find.none")}</p>`}
        <p><a href=${href("namespaces")} onClick=${onClose}>${t("namespaces.all")}</a></p>
      </form>
    <//>`;
}

// shell/preferences.js
function Preferences({ session: session2, onLeave, onHelp }) {
  const [theme, setTheme] = usePref("theme", "auto");
  const [times, setTimes] = usePref("times", "relative");
  const next = (
    /** @type {Record<string, string>} */
    { auto: "light", light: "dark", dark: "auto" }[theme] ?? "auto"
  );
  return html`<div class="prefs">
      <button
        type="button" class="icon-button" title=${t("times.switch")} aria-label=${t("times.switch")}
        onClick=${() => setTimes(
    /** @type {Record<string, string>} */
    { relative: "local", local: "utc" }[times] ?? "relative"
  )}>
        <${Icon} name="times" /><span class="wide-only"> ${t(`times.${times}`)}</span>
      </button>
      <button
        type="button" class="icon-button" title=${t("theme.switch", { theme: t(`theme.${theme}`) })}
        aria-label=${t("theme.switch", { theme: t(`theme.${theme}`) })} onClick=${() => setTheme(next)}>
        <${Icon} name=${theme} />
      </button>
      <${Language} class=${session2 ? "wide-only" : ""} />
      <button
        type="button" class="icon-button wide-only" aria-label=${t("help.keys")} title=${t("help.keys")}
        onClick=${onHelp}>
        <${Icon} name="keys" />
      </button>
      ${session2?.method === "proxy" && html`<span class="who">
            ${visible((session2.who ?? "").replace(/^proxy:/, ""))} ${session2.logout_url && html`<a href=${session2.logout_url}>${t("logout")}</a>`}
          </span>`}
      ${session2?.method === "session" && html`<span class="who">
            <a href=${href("account")} title=${t("nav.account")}>
              ${visible((session2.who ?? "").replace(/^(user|oidc):/, ""))}
            </a> <button type="button" class="link" onClick=${onLeave}>${t("logout")}</button>
          </span>`}
    </div>`;
}
function Language({ class: where }) {
  usePref("language", null);
  const choose = async ({ target }) => {
    if (!isLanguage(target.value)) return;
    try {
      await setLanguage(target.value);
    } catch {
      target.value = language();
      toast(t("error.no_answer"), "bad");
    }
  };
  return html`<select class=${where} aria-label=${t("language")} value=${language()} onChange=${choose}>
      ${Object.entries(LANGUAGES).map(
    ([code, name]) => html`<option key=${code} value=${code} lang=${code}>${name}</option>`
  )}
    </select>`;
}

// shell/header.js
function Header({ session: session2, isMenuOpen, onMenu, onSwitch, onPalette, onHelp, onLeave }) {
  return html`<header class="top">
      ${session2 && html`<button
            type="button" class="icon-button menu-button" aria-expanded=${String(isMenuOpen)}
            aria-controls="nav" aria-label=${t("menu")} onClick=${onMenu}>
            <${Icon} name="menu" />
          </button>`}
      <a class="brand" href=${href("overview")}><${Logo} /> jqmaster</a>
      ${session2 && html`<${Switcher} onOpen=${onSwitch} />`}
      ${session2 && html`<${Search} />`}
      ${may(session2, "read") && html`<button
            type="button" class="icon-button palette-button" aria-haspopup="dialog"
            aria-label=${t("palette")} title=${t("palette")} onClick=${onPalette}>
            <kbd>Ctrl K</kbd>
          </button>`}
      ${session2 && html`<${Connection} />`}
      <${Preferences} session=${session2} onLeave=${onLeave} onHelp=${onHelp} />
    </header>`;
}
function Search() {
  const input = j(
    /** @type {HTMLInputElement | null} */
    null
  );
  useKeys({
    "/": () => {
      input.current?.focus();
      input.current?.select();
    }
  });
  const submit = (event) => {
    event.preventDefault();
    const text = input.current?.value.trim() ?? "";
    if (!text) return;
    if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) go("job", { id: text.toLowerCase() });
    else go("jobs", { q: text });
    input.current?.blur();
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
      <input
        ref=${input} type="search" aria-label=${t("search")} placeholder=${t("search.hint")} maxlength="200"
        autocomplete="off" spellcheck=${false} />
    </form>`;
}

// definitions/schedules.js
var WAYS = ["every", "hourly", "daily", "weekly", "monthly", "cron"];
var DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
var HOUR = 60;
var MONDAY_MS = Date.UTC(2024, 0, 1);
var MONTHLY = /^(\d{1,2}) (\d{1,2}) (\d{1,2}|L) \* \*$/;
var BLANK = {
  way: "daily",
  every: "5",
  every_unit: "minutes",
  offset: "0",
  minute: "0",
  time: "02:30",
  day_of_month: "1",
  cron: "",
  ...Object.fromEntries(DAYS.map((day) => [day, day === "mon" ? "yes" : ""]))
};
var two = (text) => text.padStart(2, "0");
function valuesOfSchedule(schedule) {
  if (!schedule) return BLANK;
  if ("every_minutes" in schedule) {
    const isHours = schedule.every_minutes % HOUR === 0;
    return {
      ...BLANK,
      way: "every",
      every: String(isHours ? schedule.every_minutes / HOUR : schedule.every_minutes),
      every_unit: isHours ? "hours" : "minutes",
      offset: String(schedule.offset ?? 0)
    };
  }
  if ("hourly_at" in schedule) return { ...BLANK, way: "hourly", minute: String(schedule.hourly_at) };
  if ("daily_at" in schedule) return { ...BLANK, way: "daily", time: schedule.daily_at };
  if ("weekly_on" in schedule) {
    const days = DAYS.map((day) => [day, schedule.weekly_on.some((one) => one === day) ? "yes" : ""]);
    return { ...BLANK, way: "weekly", time: schedule.at, ...Object.fromEntries(days) };
  }
  const monthly = monthlyOf(schedule.cron);
  if (monthly) return { ...BLANK, way: "monthly", time: monthly.at, day_of_month: monthly.day };
  return { ...BLANK, way: "cron", cron: schedule.cron };
}
function monthlyOf(cron) {
  const [, minute = "", hour = "", day = ""] = MONTHLY.exec(cron) ?? [];
  return day && Number(hour) < 24 && Number(minute) < 60 ? { at: `${two(hour)}:${two(minute)}`, day } : null;
}
function asNumber(text) {
  const typed = (text ?? "").trim();
  return typed !== "" && Number.isFinite(Number(typed)) ? Number(typed) : typed || null;
}
function scheduleIn(values2) {
  const at2 = values2["time"] ?? "";
  switch (values2["way"]) {
    case "every": {
      const every = asNumber(values2["every"]);
      const isHours = values2["every_unit"] === "hours" && typeof every === "number";
      return { every_minutes: isHours ? every * HOUR : every, offset: asNumber(values2["offset"]) ?? 0 };
    }
    case "hourly":
      return { hourly_at: asNumber(values2["minute"]) };
    case "weekly":
      return { weekly_on: DAYS.filter((day) => values2[day]), at: at2 };
    case "monthly": {
      const [hour = "", minute = ""] = at2.split(":");
      return { cron: `${Number(minute)} ${Number(hour)} ${values2["day_of_month"]} * *` };
    }
    case "cron":
      return { cron: (values2["cron"] ?? "").trim() };
    default:
      return { daily_at: at2 };
  }
}
var dayText = (day, weekday = "short") => new Intl.DateTimeFormat(language(), { weekday, timeZone: "UTC" }).format(
  MONDAY_MS + DAYS.indexOf(day) * 864e5
);
function scheduleText(schedule) {
  if ("every_minutes" in schedule) {
    const isHours = schedule.every_minutes % HOUR === 0;
    const count = isHours ? schedule.every_minutes / HOUR : schedule.every_minutes;
    const text = t(isHours ? "definitions.every_hours" : "definitions.every_minutes", { count });
    return schedule.offset ? t("definitions.with_offset", { text, minutes: number(schedule.offset) }) : text;
  }
  if ("hourly_at" in schedule) return t("definitions.hourly_at", { minute: two(String(schedule.hourly_at)) });
  if ("daily_at" in schedule) return t("definitions.daily_at", { at: schedule.daily_at });
  if ("weekly_on" in schedule) {
    const days = schedule.weekly_on.map((day) => dayText(day)).join(", ");
    return t("definitions.weekly_at", { days, at: schedule.at });
  }
  const monthly = monthlyOf(schedule.cron);
  if (!monthly) return visible(schedule.cron);
  return monthly.day === "L" ? t("definitions.monthly_last_at", { at: monthly.at }) : t("definitions.monthly_at", { day: monthly.day, at: monthly.at });
}
var startText = (one) => one.schedule ? `${scheduleText(one.schedule)} · ${visible(one.time_zone)}` : t("definitions.on_event", { type: visible(one.event_type ?? one.kind) });
var ownZone = () => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone && /^[A-Za-z]/.test(zone) && zone !== "Etc/Unknown" ? zone : "UTC";
};
var zones = () => ["UTC", ...Intl.supportedValuesOf?.("timeZone") ?? []];
function wallText(local) {
  const [date = "", clock = ""] = local.split("T");
  const day = new Intl.DateTimeFormat(language(), { weekday: "short", timeZone: "UTC" });
  return `${day.format(Date.parse(`${date}T00:00:00Z`))} ${date} ${shortClock(clock.slice(0, 8))} (${clock.slice(8) || "+00:00"})`;
}
function ownText(at2, mode) {
  const { day, clock } = instantParts(Date.parse(at2), mode);
  const weekday = new Intl.DateTimeFormat(language(), { weekday: "short", timeZone: "UTC" });
  return `${weekday.format(Date.parse(`${day}T00:00:00Z`))} ${day} ${shortClock(clock)}`;
}
var shortClock = (clock) => clock.replace(/:00$/, "");

// constraints/limit_kinds.js
var LIMIT_KINDS = [
  {
    name: "concurrency",
    isPerValue: true,
    figures: [
      {
        name: "concurrency",
        path: ["concurrency"],
        min: 1,
        unit: "count"
      }
    ],
    isOn: false
  },
  {
    name: "rate",
    isPerValue: true,
    figures: [
      {
        name: "limit",
        path: ["rate", "limit"],
        min: 1,
        unit: "count"
      },
      {
        name: "period",
        path: ["rate", "period_s"],
        min: 1e-3,
        unit: "seconds"
      }
    ],
    isOn: false
  },
  {
    name: "paused",
    isPerValue: true,
    figures: [],
    isOn: false
  },
  {
    name: "max_backlog",
    isPerValue: false,
    figures: [
      {
        name: "max_backlog",
        path: ["max_backlog"],
        min: 0,
        unit: "count"
      }
    ],
    isOn: false
  },
  {
    name: "fair",
    isPerValue: false,
    figures: [],
    isOn: false
  },
  {
    name: "counts_awaiting",
    isPerValue: false,
    figures: [],
    isOn: true
  },
  {
    name: "weight",
    isPerValue: false,
    figures: [
      {
        name: "weight_from",
        path: ["weight", "from"],
        min: 0,
        unit: "text"
      },
      {
        name: "weight_default",
        path: ["weight", "default"],
        min: 0,
        unit: "number"
      },
      {
        name: "unit",
        path: ["weight", "unit"],
        min: 0,
        unit: "text"
      }
    ],
    isOn: false
  }
];

// ui/instants.js
var LATEST = "9999-12-31T23:59:59";
var isUtc = () => pref("times", "relative") === "utc";
var zoneAt = (ms4) => isUtc() ? "UTC" : localText(ms4).split(" ")[2] ?? "UTC";
function inZone(label, value = "") {
  const ms4 = Date.parse(value);
  return t("zone.label", { label, zone: zoneAt(Number.isNaN(ms4) ? Date.now() : ms4) });
}
var useZone = () => void usePref("times", "relative");
function inputOf(at2) {
  const ms4 = at2 ? Date.parse(at2) : NaN;
  if (Number.isNaN(ms4)) return "";
  return (isUtc() ? utcText(ms4) : localText(ms4)).slice(0, 19).replace(" ", "T");
}
function instantIn(text) {
  if (!text || text > LATEST) return "";
  const whole = text.length === 16 ? `${text}:00` : text;
  const ms4 = Date.parse(isUtc() ? `${whole}Z` : whole);
  return Number.isNaN(ms4) ? "" : new Date(ms4).toISOString().replace(".000Z", "Z");
}
var editedInstant = (text, opened2) => opened2 && text === inputOf(opened2) ? opened2 : instantIn(text) || text;

// constraints/limits.js
var PER_VALUE = LIMIT_KINDS.filter((kind) => kind.isPerValue);
var SWITCHES = LIMIT_KINDS.filter((kind) => kind.figures.length === 0);
var at = (document2, path) => path.reduce((part, step) => (
  /** @type {Limits | null | undefined} */
  part?.[step]
), document2);
var inputFor = ({ unit, min }) => {
  if (unit === "instant") return { type: "datetime-local", step: "1", max: LATEST };
  if (unit === "text") return { type: "text", maxlength: "256", spellcheck: false };
  return { type: "number", step: unit === "count" ? "1" : "any", min };
};
var figureText = ({ unit, path }, document2) => {
  const value = at(document2, path);
  return unit === "instant" ? inputOf(String(value ?? "")) : String(value ?? "");
};
var figureValue = ({ unit }, text) => {
  if (unit === "text") return text.trim();
  return unit === "instant" ? instantIn(text) : Number(text);
};
function formOf(document2) {
  return Object.fromEntries(
    LIMIT_KINDS.flatMap(
      ({ name, figures: figures2, isOn }) => figures2.length === 0 ? [[name, document2?.[name] ?? isOn ? "yes" : ""]] : figures2.map((figure) => [figure.name, figureText(figure, document2)])
    )
  );
}
function limitsIn(form, kinds) {
  const limits = {};
  for (const { name, figures: figures2, isOn } of kinds) {
    if (figures2.length === 0) {
      if (Boolean(form[name]) !== isOn) limits[name] = !isOn;
    } else if (figures2.some((figure) => form[figure.name])) {
      for (const figure of figures2) {
        if ((figure.unit === "text" || figure.unit === "number") && !form[figure.name]) continue;
        const value = figureValue(figure, form[figure.name] ?? "");
        if (figure.path.length === 1) limits[name] = value;
        else
          limits[name] = {
            .../** @type {Limits | undefined} */
            limits[name],
            [figure.path[1] ?? ""]: value
          };
      }
    }
  }
  return limits;
}
function limitsOf(document2, kinds) {
  const given = kinds.filter(({ name, isOn }) => (document2?.[name] ?? isOn) !== isOn);
  return Object.fromEntries(given.map(({ name }) => [name, document2?.[name]]));
}
var IN_UNITS = ["concurrency", "rate"];
function limitTexts(document2, unit = document2.weight?.unit) {
  return LIMIT_KINDS.filter(
    ({ name, figures: figures2 }) => figures2.length > 0 && (document2[name] ?? null) !== null
  ).map(({ name, figures: figures2 }) => {
    if (document2.weight && name === "weight") return weightText(document2.weight);
    const { count, seconds, instant } = Object.fromEntries(
      figures2.map(({ unit: unit2, path }) => [unit2, at(document2, path)])
    );
    return t(unit && IN_UNITS.includes(name) ? `limit.${name}.units` : `limit.${name}`, {
      ...typeof count === "number" && { count },
      ...unit && { unit },
      ...typeof seconds === "number" && {
        duration: tOr(`period.${seconds}`, durationText(seconds * 1e3))
      },
      ...typeof instant === "string" && { at: instantText(Date.parse(instant), pref("times", "relative")) }
    });
  });
}
var weightText = (weight) => weight.from === null ? t("limit.weight.same", { default: number(weight.default), unit: weight.unit }) : t("limit.weight", { from: visible(weight.from), default: number(weight.default) });

// matching/rule_builder.js
var OPS = ["eq", "ne", "in", "glob", "lt", "le", "gt", "ge", "exists"];
var FIELDS = ["name", "tags", "priority"];
var JOBS_READ = 5;
var MAX_DEEP = 4;
var MAX_VALUES = 20;
function ruleOf(text) {
  let matcher;
  try {
    matcher = /** @type {typeof matcher} */
    parseExact(text);
  } catch {
    return null;
  }
  const kind = Array.isArray(matcher?.any) ? "any" : "all";
  const members = matcher?.[kind];
  const rows = (Array.isArray(members) ? members : [matcher]).map(rowOf);
  return rows.every((row) => row !== null) ? { kind, rows } : null;
}
function rowOf(condition) {
  const isNot = Boolean(condition?.not);
  const leaf = (
    /** @type {{field?: unknown, op?: unknown, value?: unknown} | null} */
    isNot ? condition?.not : condition
  );
  if (typeof leaf?.field !== "string" || typeof leaf.op !== "string" || !OPS.includes(leaf.op)) return null;
  return { field: leaf.field, op: leaf.op, value: typedOf(leaf.value ?? true), isNot };
}
var typedOf = (value) => typeof value === "string" && valueOf(value) === value ? value : toJson(value);
function valueOf(typed) {
  try {
    return parseExact(typed);
  } catch {
    return typed;
  }
}
function conditionText({ field, op, value, isNot }) {
  const isAbsent = op === "exists" && value === "false";
  return [
    field,
    isNot !== isAbsent && t("rule.not"),
    tOr(`rule.op.${op}`, op),
    op !== "exists" && (value || '""')
  ].filter(Boolean).join(" ");
}
function ruleText(matcher) {
  const rule = ruleOf(toJson(matcher));
  if (rule === null) return null;
  const text = rule.rows.map(conditionText).join("; ");
  return rule.rows.length > 1 ? `${t(`rule.${rule.kind}`)}: ${text}` : text;
}
function RuleText({ matcher }) {
  const rule = ruleOf(toJson(matcher));
  const json = html`<pre class="message"><${Text} value=${toJson(matcher, 2)} max=${4e3} isBlock /></pre>`;
  if (rule === null) return json;
  return html`${rule.rows.length > 1 && html`<p>${t(`rule.${rule.kind}`)}:</p>`}
    <ul class="plain rule-text">
      ${rule.rows.map(
    (row, at2) => html`<li key=${at2}><${Text} value=${conditionText(row)} max=${400} /></li>`
  )}
    </ul>
    <details><summary>JSON</summary>${json}</details>`;
}
function conditionRow(text) {
  const rows = ruleOf(text)?.rows ?? [];
  return rows.length === 1 && rows[0] && !rows[0].isNot ? rows[0] : null;
}
var conditionOf = (row) => textOf({ kind: "all", rows: [row] });
function textOf({ kind, rows }) {
  const members = rows.map(({ field, op, value, isNot }) => {
    const typed = op === "in" && !value.trim().startsWith("[") ? value.split(",").map((one) => valueOf(one.trim())) : valueOf(value);
    const leaf = { field, op, value: op === "exists" ? value !== "false" : typed };
    return isNot ? { not: leaf } : leaf;
  });
  return toJson(members.length === 1 && kind === "all" ? members[0] : { [kind]: members }, 2);
}
function RuleBuilder({ text, onText, suggestions, hint }) {
  const id = J2();
  const [rule, setRule] = E2(() => ruleOf(text));
  const told4 = j(text);
  V2(() => {
    if (text === told4.current) return;
    told4.current = text;
    setRule(ruleOf(text));
  }, [text]);
  if (rule === null) return html`<p class="muted">${t("rule.nested")}</p>`;
  const change2 = (next) => {
    setRule(next);
    told4.current = textOf(next);
    onText(told4.current);
  };
  const put2 = (at2, part) => change2({ ...rule, rows: rule.rows.map((row, place2) => place2 === at2 ? { ...row, ...part } : row) });
  const remove = (at2) => change2({ ...rule, rows: rule.rows.filter((_, place2) => place2 !== at2) });
  return html`<div class="rule" role="group" aria-label=${t("constraints.matcher")}>
      <datalist id=${`${id}-fields`}>
        ${suggestions.fields.map((field) => html`<option key=${field} value=${field} />`)}
      </datalist>
      ${rule.rows.length > 1 && html`<select
            aria-label=${t("rule.kind")} value=${rule.kind}
            onChange=${(e2) => change2({ ...rule, kind: e2.target.value === "any" ? "any" : "all" })}>
            <option value="all">${t("rule.all")}</option><option value="any">${t("rule.any")}</option>
          </select>`}
      ${rule.rows.map(
    (row, at2) => html`<${RuleRow}
              key=${at2} row=${row} at=${at2} id=${id} suggestions=${suggestions}
              put=${(part) => put2(at2, part)} onRemove=${rule.rows.length > 1 ? () => remove(at2) : null} />`
  )}
      <div>
        <${Button}
          class="small" onClick=${() => change2({
    ...rule,
    rows: [...rule.rows, { field: suggestions.fields[0] ?? "", op: "eq", value: "", isNot: false }]
  })}>
          ${t("rule.add")}
        <//>
      </div>
      <p class="muted small">${hint}</p>
    </div>`;
}
function RuleRow({ row, at: at2, id, suggestions, put: put2, onRemove }) {
  const n = at2 + 1;
  return html`<div class="rule-row">
            <input
              aria-label=${t("rule.field", { n })} list=${`${id}-fields`} spellcheck=${false}
              autocomplete="off" autocapitalize="none" value=${row.field}
              onInput=${(e2) => put2({ field: e2.target.value })} />
            <select
              aria-label=${t("rule.op", { n })} value=${`${row.isNot ? "not " : ""}${row.op}`}
              onChange=${(e2) => put2({
    op: e2.target.value.replace("not ", ""),
    isNot: e2.target.value.startsWith("not ")
  })}>
              ${["", "not "].flatMap(
    (not) => OPS.map(
      (op) => html`<option key=${not + op} value=${not + op}>${not && `${t("rule.not")} `}${tOr(`rule.op.${op}`, op)}</option>`
    )
  )}
            </select>
            <input
              aria-label=${t("rule.value", { n })} list=${`${id}-values-${at2}`} spellcheck=${false}
              autocomplete="off" autocapitalize="none" value=${row.value}
              onInput=${(e2) => put2({ value: e2.target.value })} />
            <datalist id=${`${id}-values-${at2}`}>
              ${(suggestions.values.get(row.field) ?? []).map(
    (value) => html`<option key=${value} value=${value} />`
  )}
            </datalist>
            ${onRemove && html`<button
                  type="button" class="icon-button" aria-label=${t("rule.remove", { n })}
                  onClick=${onRemove}>
                  ✕
                </button>`}
          </div>`;
}
function MatcherField({ form, label, suggestions, hint, jsonHint, rows = "5", problem }) {
  const text = form.values["matcher"] ?? "";
  const [isJson, setJson] = E2(() => ruleOf(text) === null);
  const shown2 = problem ?? form.problem;
  const errors = fieldErrors(shown2, "matcher");
  return html`<div class="stack">
      <div class="row" role="group" aria-label=${t("rule.mode")}>
        <${Button} class="small" aria-pressed=${String(!isJson)} onClick=${() => setJson(false)}>
          ${t("rule.builder")}
        <//> <${Button} class="small" aria-pressed=${String(isJson)} onClick=${() => setJson(true)}>JSON<//>
      </div>
      ${isJson ? html`<${FormField} form=${form} name="matcher" as="textarea" rows=${rows} spellcheck=${false} label=${label} hint=${jsonHint} problem=${shown2} />` : html`<${RuleBuilder}
              suggestions=${suggestions} hint=${hint} text=${text}
              onText=${(next) => form.set({ matcher: next })} />
            ${errors.length > 0 && html`<p class="field-error">${visible(errors.join("; "))}</p>`}`}
    </div>`;
}
function useSuggestions(fields, read, deps) {
  const [found, setFound] = E2(() => ({ fields, values: /* @__PURE__ */ new Map() }));
  W2(() => {
    const aborter = new AbortController();
    const values2 = /* @__PURE__ */ new Map();
    const add = (field, value) => eachPart(
      field,
      value,
      (path, part) => values2.set(path, (values2.get(path) ?? /* @__PURE__ */ new Set()).add(typedOf(part)))
    );
    read(add, aborter.signal).then(
      () => setFound({
        fields: [.../* @__PURE__ */ new Set([...fields, ...values2.keys()])],
        values: new Map([...values2].map(([field, all]) => [field, [...all].slice(0, MAX_VALUES)]))
      }),
      () => {
      }
    );
    return () => aborter.abort();
  }, deps);
  return found;
}
function eachPart(path, value, take) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    if (path.split(".").length > MAX_DEEP) return;
    for (const [key, member] of Object.entries(value))
      eachPart(/^\w+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`, member, take);
  } else if (!Array.isArray(value)) take(path, value);
}
var useJobSuggestions = () => useSuggestions(FIELDS, readJobs, []);
async function readJobs(add, signal) {
  const [names, jobs] = await Promise.all([
    get("api/names", { limit: 50 }, signal),
    get("api/jobs", { limit: 50 }, signal)
  ]);
  for (const { name } of names.names) add("name", name);
  const different = [...new Map(jobs.jobs.map((job) => [job.name, job])).values()].slice(0, JOBS_READ);
  for (const job of jobs.jobs) for (const tag of job.tags) add("tags", tag);
  const whole = await Promise.all(
    different.map((job) => get(`api/jobs/${encodeURIComponent(job.id)}`, {}, signal))
  );
  for (const job of whole) {
    if (!job.argument_hidden) add("argument", job.argument);
    for (const [key, value] of Object.entries(job.headers)) add(`headers.${visible(key)}`, value);
  }
}

// identity/value_words.js
var DATA = ["argument", "headers", "payload", "value", "params"];
var WORDS = {
  catch_up: "definitions.catch_up.",
  cause: "cause.",
  group_by: "notices.group_by.",
  kind: "definitions.kind_of.",
  mode: "constraints.",
  overlap: "definitions.overlap.",
  role: "access.role.",
  state: "action.state.",
  when: "notices.when."
};
var UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
var TOKEN = /^(?:token:)?([0-9a-f]{8,12})$/;
var INSTANT_KEY = /(^|_)(at|from|to|until|after|before|since)_ms$/;
var INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;
var isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
var shortId = (text) => text.replace(UUID, (id) => `…${id.slice(-10)}`);
function whoText(who) {
  const id = TOKEN.exec(who)?.[1];
  return id ? t("audit.token", { id }) : shortId(who.replace(/^user:/, ""));
}
var isDefault = (value) => value === false || value === "" || value === null || Array.isArray(value) && value.length === 0;
var keyWords = (key) => tOr(`audit.field.${key}`, "") || tOr(`audit.field.${withoutUnit(key)}`, "") || tOr(`filter.${key}`, "").toLowerCase() || tOr(`settings.label.${key}`, withoutUnit(key).replaceAll("_", " "));
var withoutUnit = (key) => key.replace(/_(ms|s)$/, "");
var instantWords = (ms4) => instantText(ms4, pref("times", "relative"));
function filterWords(filter) {
  const words = Object.entries(filter).map(([key, value]) => {
    if (key === "matcher") return ruleText(value) ?? toJson(value);
    const label = tOr(`filter.${withoutUnit(key)}`, keyWords(key));
    const text = key === "state" || key === "cause" ? tOr(`${key}.${value}`, String(value)) : wordsOf(key, value);
    return `${label}: ${text}`;
  });
  return words.join(" · ") || t("audit.filter.all");
}
function overrideWords(override) {
  const { match, value: of2 } = override;
  const value = match ? ruleText(match) ?? toJson(match) : typeof of2 === "string" ? of2 : toJson(of2);
  const limits = [...limitTexts(override), ...override.paused ? [t("audit.field.paused")] : []];
  return `${value}: ${limits.join(", ") || t("audit.no_limit")}`;
}
function figureWords(key, value) {
  if (INSTANT_KEY.test(key)) return instantWords(value);
  if (/_ms$/.test(key)) return durationText(value);
  if (/_s$/.test(key) || key === "timeout") return durationText(value * 1e3);
  return key === "pid" || key === "port" ? String(value) : number(value);
}
function textWords(key, text) {
  if (INSTANT.test(text) && !Number.isNaN(Date.parse(text))) return instantWords(Date.parse(text));
  return key in WORDS ? tOr(`${WORDS[key]}${text}`, text) : text;
}
function wordsOf(key, value) {
  if (value === null || value === void 0) return "–";
  if (typeof value === "boolean") return t(value ? "audit.yes" : "audit.no");
  if (typeof value === "string") return textWords(key, value);
  if (DATA.includes(key)) return toJson(value);
  if (typeof value === "number") return figureWords(key, value);
  if (Array.isArray(value)) {
    if (key === "overrides") return value.filter(isMap).map(overrideWords).join("; ") || t("none");
    return value.map((one) => wordsOf(key, one)).join(value.some(isMap) ? "; " : ", ") || t("none");
  }
  if (!isMap(value)) return toJson(value);
  if (key === "filter") return filterWords(value);
  if (key === "rate" && "limit" in value) return limitTexts({ rate: value }).join(", ");
  if (key === "matcher" || key === "when_matches") return ruleText(value) ?? toJson(value);
  if (key === "schedule") return scheduleText(
    /** @type {Parameters<typeof scheduleText>[0]} */
    value
  );
  const members = Object.entries(value).filter(([, part]) => !isDefault(part));
  return members.map(([name, part]) => `${keyWords(name)}: ${wordsOf(name, part)}`).join(" · ") || t("none");
}

// jobs/backlog_why.js
var PAUSE_PREFIX = "pause-";
var MAX_VALUE = 60;
var MAX_REASON = 120;
var PER = { 1: "s", 60: "min", 3600: "h", 86400: "d" };
function BacklogWhy({ whose, class: more = "" }) {
  const { data } = useResource((signal) => get("api/jobs/why", whose, signal), [JSON.stringify(whose)], {
    events: ["jobs", "constraints", "workers"],
    leastMs: 1e4,
    everyMs: 15e3
  });
  const causes = data?.causes ?? [];
  if (!data || causes.length === 0)
    return html`<p class=${`backlog-why ${more}`} aria-hidden="true">${" "}</p>`;
  const head = t(data.is_exact ? "backlog.waits" : "backlog.waits.at_least", { count: data.ready });
  const part = data.examined < data.ready ? ` ${t("backlog.part", { count: data.examined })}` : "";
  return html`<p class=${`backlog-why ${more}`}>
      ${head}
      ${part} ${causes.map(
    (cause, at2) => html`<span key=${keyOf(cause)}>${at2 > 0 && t("backlog.and")}<a href=${addressOf2(cause)}>${causeText(cause)}</a></span>`
  )}
    </p>`;
}
var keyOf = ({ code, constraint, key_value, kind }) => JSON.stringify([code, constraint, key_value, kind]);
var addressOf2 = ({ constraint, job_id }) => constraint ? href("constraints", { name: constraint }) : href("job", { id: job_id });
function causeText(cause) {
  const count = number(cause.count);
  if (cause.constraint === null)
    return tOr(`backlog.${cause.code}`, t("backlog.others")).replace("{count}", count);
  if (cause.constraint.startsWith(PAUSE_PREFIX)) return `${count} ${howText(cause)}`;
  const name = visible(cause.constraint);
  const what = cause.key_value === null ? name : t("backlog.at", { name, value: visible(cause.key_value).slice(0, MAX_VALUE) });
  return t("backlog.for", { count, what, how: howText(cause) });
}
function howText({ kind, limit, usage, period_s, eta_s, paused_by, reason }) {
  if (kind === "paused") {
    const who = paused_by ? t("backlog.paused_by", { who: visible(whoText(paused_by)) }) : t("backlog.paused");
    return reason ? `${who}: ${visible(reason).slice(0, MAX_REASON)}` : who;
  }
  if (eta_s !== null && limit !== null && period_s !== null) {
    const unit = PER[period_s] ? t(`unit.${PER[period_s]}`) : durationText(period_s * 1e3);
    return t("backlog.rate", { limit, unit, eta: durationText(eta_s * 1e3, true) });
  }
  if (limit !== null) return t("backlog.full", { used: usage ?? 0, limit });
  return t("backlog.held");
}

// batches/parts.js
var ERRORS_READ = 100;
var ERRORS_SHOWN = 5;
var CALLBACKS = (
  /** @type {const} */
  ["on_success", "on_complete", "on_failure"]
);
var titleOf = (batch) => batch.description.split("\n")[0] || `…${batch.id.slice(-10)}`;
function useBatch(id) {
  const [batch, setBatch] = E2(
    /** @type {Batch | null} */
    null
  );
  W2(() => {
    if (!id) return void 0;
    const aborter = new AbortController();
    const path = (
      /** @type {const} */
      `api/batches/${encodeURIComponent(id)}`
    );
    get(path, {}, aborter.signal).then(setBatch, () => {
    });
    return () => {
      aborter.abort();
      setBatch(null);
    };
  }, [id]);
  return batch;
}
var hasFailed = ({ counts, batches }) => counts.failed + counts.canceled + counts.skipped + counts.deleted + batches.failed > 0;
function BatchState({ batch }) {
  const { state, canceled_at } = batch;
  if (canceled_at) return html`<${Badge} kind="off">${t("batches.state.canceled")}<//>`;
  const kind = state === "complete" ? hasFailed(batch) ? "bad" : "ok" : state === "sealed" ? "info" : "warn";
  const word = state === "complete" && hasFailed(batch) ? "complete_failed" : state;
  return html`<${Badge} kind=${kind}>${t(`batches.state.${word}`)}<//>`;
}
function countsOf({ counts }) {
  const byState2 = (
    /** @type {Record<string, number | null | undefined>} */
    { ...counts }
  );
  const known2 = Object.keys(STATES).flatMap(
    (state) => byState2[state] ? [
      /** @type {[string, number]} */
      [state, byState2[state]]
    ] : []
  );
  const isCounted = Object.keys(STATES).every((state) => typeof byState2[state] === "number");
  return isCounted || !counts.unfinished ? known2 : [["unfinished", counts.unfinished], ...known2];
}
var shareOf = ({ counts }) => counts.total ? Math.floor((counts.total - counts.unfinished) / counts.total * 100) : 0;
function BatchStrip({ batch }) {
  const counts = countsOf(batch).filter(([state]) => state !== "unfinished");
  const { total, unfinished: unfinished2 } = batch.counts;
  const ended = counts.filter(([state]) => STATES[state]?.phase === "finished");
  const label = t("batches.over_of", { over: total - unfinished2, total });
  return html`<span class="strip batch-strip" role="img" aria-label=${label} title=${label}>
      ${ended.map(
    ([state, count]) => html`<i key=${state} class=${`seg seg-${state}`} style=${{ width: `${count / Math.max(1, total) * 100}%` }}></i>`
  )}
    </span>`;
}
function BatchProgress({ batch }) {
  const { total, unfinished: unfinished2 } = batch.counts;
  return html`<span class="batch-progress">
      <${BatchStrip} batch=${batch} />
      <span class="num"><${Num} value=${total - unfinished2} /> / <${Num} value=${total} /></span>
    </span>`;
}
function reasonText(batch, reason) {
  const { counts, batches } = batch;
  switch (reason.code) {
    case "open":
      return t("batches.why.open");
    case "jobs":
      return t("batches.why.jobs", { count: counts.unfinished, total: counts.total });
    case "batches":
      return t("batches.why.batches", {
        count: batches.total - batches.succeeded - batches.failed,
        total: batches.total
      });
    case "callback":
      return t("batches.why.callback", {
        callback: CALLBACKS.filter((one) => batch.callbacks[one]?.state === "due").join(", ")
      });
    case "failed": {
      const bad = (
        /** @type {const} */
        ["failed", "canceled", "skipped", "deleted"]
      );
      const what = bad.filter((state) => counts[state] > 0).map(
        (state) => t(`batches.why.${state === "failed" ? "failed_jobs" : state}`, { count: counts[state] })
      );
      if (batches.failed) what.push(t("batches.why.in_batches", { count: batches.failed }));
      return t("batches.why.failed", { what: what.join(", ") || t("batches.state.canceled") });
    }
    default:
      return visible(reason.text);
  }
}
function Callbacks({ batch }) {
  const some = CALLBACKS.flatMap((callback) => {
    const one = batch.callbacks[callback];
    return one ? [{ ...one, callback }] : [];
  });
  return html`<section class="card" aria-labelledby="callbacks">
      <h2 id="callbacks">${t("batches.callbacks")}</h2>${some.length === 0 ? html`<p class="muted">${t("batches.callbacks.none")}</p>` : html`<dl class="facts">
              ${some.map(
    (one) => html`<dt key=${one.callback}>${t(`batches.${one.callback}`)}</dt>
                    <dd>
                      ${one.state === "enqueued" ? html`<a href=${href("job", { id: one.job_id })}><${Text} value=${one.name} max=${80} /></a>` : html`<${Text} value=${one.name} max=${80} />`} <${Badge}
                        kind=${one.state === "enqueued" ? "ok" : one.state === "due" ? "info" : "off"}>
                        ${callbackText(batch, one.state)}
                      <//>
                    </dd>`
  )}
            </dl>`}
    </section>`;
}
function FailedWith({ batch }) {
  const { data } = useResource(
    (signal) => get("api/jobs", { batch: batch.id, state: "failed", include: "error", limit: ERRORS_READ }, signal),
    [batch.id, batch.counts.failed],
    { everyMs: 15e3 }
  );
  const most = errorKinds(data?.jobs ?? []).filter(({ error }) => error).slice(0, ERRORS_SHOWN);
  return html`<ul class="plain">
      ${most.map(
    ({ name, error, count }) => html`<li key=${`${name} ${error}`}>
              <a href=${href("batches", { id: batch.id, state: "failed" })}>${number(count)} ×</a> <${Text}
                value=${error} max=${300} />
            </li>`
  )}
    </ul>`;
}
var failuresFirst = (reasons) => [
  ...reasons.filter((reason) => reason.code === "failed"),
  ...reasons.filter((reason) => reason.code !== "failed")
];
var callbackText = (batch, state) => t(`batches.callback.${state === "waiting" && batch.state === "complete" ? "not_started" : state}`);
function BatchWhy({ batch, why }) {
  if (!why?.reasons.length) return null;
  const late = batch.expires_at && Date.parse(batch.expires_at) - nowMs() < 36e5;
  return html`<section class="card why" aria-labelledby="why">
      <h2 id="why">${t(batch.state === "complete" ? "batches.why.complete" : "batches.why.title")}</h2>
      <ol class="verdicts">
        ${failuresFirst(why.reasons).map(
    (reason, at2) => html`<li key=${reason.code + at2} class=${at2 === 0 ? "first" : ""}><p>${reasonText(batch, reason)}</p></li>`
  )}
      </ol>
      ${batch.counts.failed > 0 && html`<${FailedWith} batch=${batch} />`}
      ${batch.counts.unfinished > 0 && html`<${BacklogWhy} whose=${{ batch: batch.id }} />`}
      ${late && html`<p class="muted">${t("batches.why.expires")}</p>`}
      ${why.jobs.length > 0 && html`<h3>${t("batches.why.oldest")}</h3>
          <ul class="plain">
            ${why.jobs.map(
    (job) => html`<li key=${job.id}>
                    <${State} state=${job.state} /> <a href=${href("job", { id: job.id })}>
                      <${Text} value=${job.name} max=${60} />
                    </a> <span class="id muted">…${job.id.slice(-10)}</span>
                  </li>`
  )}
          </ul>`}
    </section>`;
}

// core/durations.js
var SECOND = 1e3;
var MINUTE = 60 * SECOND;
var HOUR2 = 60 * MINUTE;
var DAY = 24 * HOUR2;
var UNITS2 = [
  [SECOND, "s|sec|secs|second|seconds|秒|秒間"],
  [MINUTE, "m|min|mins|minute|minutes|分|分間"],
  [HOUR2, "h|hr|hrs|hour|hours|時間"],
  [DAY, "d|day|days|日|日間"],
  [7 * DAY, "w|week|weeks|週|週間"]
];
var SIZES = new Map(UNITS2.flatMap(([size, words]) => words.split("|").map((word) => [word, size])));
var WORDS2 = [...SIZES.keys()].sort((a2, b2) => b2.length - a2.length).join("|");
var PART = new RegExp(`^(\\d+(?:[.,]\\d+)?) ?(${WORDS2})(?![a-z])(半)?(?:[ ,]|and |と)*`);
var SHORT = /^(\d+) ?(?:h|時間)(\d{1,2})$/;
var ENDLESS = /* @__PURE__ */ new Set(["forever", "no end", "without end", "無期限", "ずっと"]);
var HALVES = (
  /** @type {Record<string, string>} */
  { half: "0.5", an: "1", a: "1", one: "1" }
);
var WEEKDAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
var WEEKDAYS_JA = "日月火水木金土";
var CLOCK = /^(?:at )?(午前|午後)?(\d{1,2})(?::(\d{2})|時(?:(\d{1,2})分|(半))?)? ?(am|pm|a\.m\.|p\.m\.)?$/;
function durationIn(text, nowMs2, isUtc2) {
  const plain2 = text.normalize("NFKC").trim().toLowerCase().replace(/\s+/g, " ");
  if (ENDLESS.has(plain2)) return Infinity;
  const until = plain2.match(/^(?:until|till|by) (.+)$/)?.[1] ?? plain2.match(/^(.+?) ?(?:まで|迄)$/)?.[1];
  const length = until === void 0 ? lengthOf(plain2) : null;
  if (length !== null) return length;
  const end = instantOf(until ?? plain2, nowMs2, isUtc2);
  return end === null || end <= nowMs2 ? null : end - nowMs2;
}
function lengthOf(plain2) {
  if (plain2 === "0") return 0;
  let rest = plain2.replace(/^(?:for|in) /, "").replace(/ ?(?:後|の間)$/, "").replace(/\b(half|an|a|one)(?: an?)? (?=[a-z])/g, (_, word) => `${HALVES[word]} `).replace(/^半(?=日|時間)/, "0.5");
  const short = rest.match(SHORT);
  if (short) return Number(short[1]) * HOUR2 + Number(short[2]) * MINUTE;
  let total = 0;
  let last = Infinity;
  while (rest) {
    const [whole = "", count = "", unit = "", half] = rest.match(PART) ?? [];
    const size = SIZES.get(unit);
    if (!size || size >= last) return null;
    total += (Number(count.replace(",", ".")) + (half ? 0.5 : 0)) * size;
    last = size;
    rest = rest.slice(whole.length);
  }
  return last === Infinity ? null : total;
}
function instantOf(plain2, nowMs2, isUtc2) {
  const now = new Date(nowMs2);
  const today = isUtc2 ? [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate(), now.getUTCDay()] : [now.getFullYear(), now.getMonth(), now.getDate(), now.getDay()];
  const [year = 0, month = 0, day = 0, weekday = 0] = today;
  const make = (y2, m, d, h2, min) => isUtc2 ? Date.UTC(y2, m, d, h2, min) : new Date(y2, m, d, h2, min).getTime();
  const dated = plain2.match(/^(\d{4})-(\d{2})-(\d{2})(?:[ t](.+))?$/);
  if (dated) {
    const clock2 = clockOf(dated[4] ?? "0:00");
    const [y2, m, d] = [Number(dated[1]), Number(dated[2]) - 1, Number(dated[3])];
    const isDay = new Date(Date.UTC(y2, m, d)).getUTCDate() === d;
    return clock2 && isDay ? make(y2, m, d, clock2[0], clock2[1]) : null;
  }
  const { days, rest } = dayOf(plain2, weekday);
  const clock = clockOf(rest || (days === null ? "" : "0:00"));
  if (!clock) return null;
  const at2 = make(year, month, day + (days ?? 0), clock[0], clock[1]);
  return days === null && at2 <= nowMs2 ? make(year, month, day + 1, clock[0], clock[1]) : at2;
}
function dayOf(plain2, weekday) {
  const named = plain2.match(/^(today|tomorrow|今日|本日|明日|明後日)(?:の| at)? ?(.*)$/);
  if (named) {
    const days = { tomorrow: 1, 明日: 1, 明後日: 2 }[named[1] ?? ""] ?? 0;
    return { days, rest: named[2] ?? "" };
  }
  const english = plain2.match(/^(?:next )?([a-z]{3,9})(?: at)?(?: (.*))?$/);
  const japanese = plain2.match(/^(?:次の)?([日月火水木金土])曜日?(?:の)? ?(.*)$/);
  const at2 = english ? WEEKDAYS.findIndex((one) => one === english[1] || one.slice(0, 3) === english[1]) : japanese ? WEEKDAYS_JA.indexOf(japanese[1] ?? "") : -1;
  if (at2 < 0) return { days: null, rest: plain2 };
  return { days: (at2 - weekday + 6) % 7 + 1, rest: (english ?? japanese)?.[2] ?? "" };
}
function clockOf(text) {
  if (text === "noon" || text === "正午") return [12, 0];
  if (text === "midnight") return [24, 0];
  const found = text.match(CLOCK);
  if (!found) return null;
  const [, half, hours = "", colon, minutes, isHalfPast, english] = found;
  if (colon === void 0 && !english && !text.includes("時")) return null;
  const isTwelve = Boolean(half || english);
  const isAfternoon = half === "午後" || Boolean(english?.startsWith("p"));
  let hour = Number(hours);
  const minute = isHalfPast ? 30 : Number(colon ?? minutes ?? 0);
  if (minute > 59 || hour > (isTwelve ? 12 : 24) || hour === 24 && minute > 0) return null;
  if (isTwelve) hour = hour % 12 + (isAfternoon ? 12 : 0);
  return [hour, minute];
}

// ui/durations.js
var MINUTE_MS2 = 6e4;
var SUGGESTED_MS = [15, 30, 60, 120, 240, 1440].map((minutes) => minutes * MINUTE_MS2);
function endOf(text, now = nowMs()) {
  const ms4 = durationIn(text, now, pref("times", "relative") === "utc");
  return ms4 === null || ms4 === 0 || ms4 === Infinity ? null : now + ms4;
}
var unreadable = (field) => new Problem(422, { title: t("duration.unknown"), errors: [{ loc: [field], msg: t("duration.rule") }] });
function DurationField({ form, name, label, empty, path }) {
  const text = form.values[name] ?? "";
  const end = text.trim() ? endOf(text) : null;
  const said = !text.trim() ? empty ?? t("duration.hint") : end === null ? t("duration.unknown") : t("duration.until", {
    time: clockText(end, pref("times", "relative")),
    duration: durationText(Math.round((end - nowMs()) / 1e3) * 1e3)
  });
  return html`<${Field}
      label=${label} hint=${html`<span role="status">${said}</span>`} problem=${form.problem}
      path=${path ?? name}>
      ${(attributes) => html`<input
            autocomplete="off" spellcheck=${false} maxlength="60" placeholder=${t("duration.example")}
            ...${attributes} ...${form.input(name)} />
          <div class="suggested">
            ${SUGGESTED_MS.map(
    (ms4) => html`<button type="button" key=${ms4} class="button small" onClick=${() => form.set({ [name]: durationText(ms4) })}>${durationText(ms4)}</button>`
  )}
          </div>`}
    <//>`;
}

// ui/form_dialog.js
function FormDialog({
  title: title2,
  form,
  onSave,
  onClose,
  reread,
  labelOf: labelOf9 = (name) => name,
  isNew = false,
  staysOpen = false,
  saveLabel,
  isWide = false,
  more,
  children
}) {
  const [isAsking, setAsking] = E2(false);
  const box = j(
    /** @type {HTMLFormElement | null} */
    null
  );
  const isDirty = form.changed.length > 0;
  const keep = useKeptInput(isDirty, title2);
  useFocus(box, form.problem);
  const end = () => {
    keep.forget();
    onClose();
  };
  const close2 = () => isDirty && !form.isBusy ? setAsking(true) : end();
  const save = async (event) => {
    event.preventDefault();
    if (form.isBusy) return;
    if (!isNew && !isDirty) {
      toast(t("form.unchanged"));
      return end();
    }
    const done = await keep.during(() => form.run((values2) => saved(form, values2, onSave, reread)));
    if (!done) return;
    if (typeof done === "string") toast(done);
    else toast(done.text, "ok", done.undo);
    keep.forget();
    if (!staysOpen) onClose();
  };
  return html`<${Dialog} title=${title2} onClose=${close2} isWide=${isWide}>
      <form ref=${box} class="stack" novalidate onSubmit=${save} onInput=${() => setAsking(false)}>
        ${children}
        ${form.differences.length > 0 && html`<${Differences} form=${form} labelOf=${labelOf9} />`}
        <${ErrorBox} problem=${form.problem} />
        ${isAsking ? html`<footer role="alert">
                <p>${t("form.discard.ask")}</p>
                <${Button} onClick=${() => setAsking(false)}>${t("form.keep_editing")}<//>
                <${Button} kind="danger" onClick=${end}>${t("form.discard")}<//>
              </footer>` : html`<footer>
                ${more}<${Button} onClick=${close2}>${t("cancel")}<//>
                <button class="button primary" disabled=${form.isBusy}>${saveLabel ?? t("save")}</button>
              </footer>`}
      </form>
    <//>`;
}
async function saved(form, values2, onSave, reread) {
  try {
    return await onSave(values2, form.base);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412 || !reread) throw error;
    const newest = await reread();
    return form.compare(newest).length === 0 ? await onSave(values2, newest) : void 0;
  }
}
function useFocus(box, problem) {
  V2(() => {
    const first = box.current?.querySelector("input:not([type=checkbox]), select, textarea");
    if (first instanceof HTMLElement) first.focus();
  }, []);
  W2(() => {
    const wrong = problem && box.current?.querySelector("[aria-invalid=true]");
    if (wrong instanceof HTMLElement) wrong.focus();
  }, [problem]);
}
function useKeptInput(isDirty, title2) {
  const unsaved = j(false);
  unsaved.current = isDirty;
  const isSaving = j(false);
  V2(
    () => () => {
      if (unsaved.current && !isSaving.current) toast(t("form.discarded", { title: title2 }), "bad");
    },
    []
  );
  W2(() => {
    if (!isDirty) return void 0;
    const warn = (event) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isDirty]);
  return {
    forget: () => void (unsaved.current = false),
    /** @template Done @param {() => Promise<Done>} save @returns {Promise<Done>} */
    during: async (save) => {
      isSaving.current = true;
      const done = await save();
      if (!done) isSaving.current = false;
      return done;
    }
  };
}
function Differences({ form, labelOf: labelOf9 }) {
  const id = J2();
  const cell = (one, choice) => html`<td>
        <label class="check">
          <input
            type="radio" name=${`${id}-${one.name}`} checked=${one.choice === choice}
            onChange=${() => form.choose(one.name, choice)} /> <${FormValue} value=${one[choice]} />
        </label>
      </td>`;
  return html`<section class="conflict" role="alert" aria-labelledby=${id}>
      <h3 id=${id}>${t("form.conflict")}</h3><p>${t("form.conflict.text")}</p>
      <div class="table-box">
        <table>
          <thead>
            <tr>
              <th scope="col">${t("form.field")}</th><th scope="col">${t("form.opened")}</th>
              <th scope="col">${t("form.mine")}</th><th scope="col">${t("form.theirs")}</th>
            </tr>
          </thead>
          <tbody>
            ${form.differences.map(
    (one) => html`<tr key=${one.name}>
                    <th scope="row">${labelOf9(one.name)}</th>
                    <td class="muted"><${FormValue} value=${one.opened} /></td>${cell(one, "mine")}
                    ${cell(one, "theirs")}
                  </tr>`
  )}
          </tbody>
        </table>
      </div>
    </section>`;
}
function FormValue({ value }) {
  return value === "" ? html`<span class="muted">${t("none")}</span>` : html`<${Text} value=${value} max=${200} isBlock />`;
}

// constraints/pause_dialog.js
var HOUR_MS = 36e5;
var endPause = (name, onDone) => attempt(() => del(`api/constraints/${encodeURIComponent(name)}`), t("pause.ended")).then(onDone);
function PauseButton({ target, what, label, class: more = "small", isIcon = false, onDone }) {
  const name = `${t("constraints.pause")}: ${what}`;
  const open = () => ask({ target, what, ...onDone && { onDone } });
  return isIcon ? html`<button
        type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${name} title=${name}
        onClick=${open}>
        <${Icon} name="pause" />
      </button>` : html`<${Button} opensDialog class=${more} aria-label=${name} onClick=${open}>${label ?? t("constraints.pause")}<//>`;
}
var ask = () => {
};
function PauseHost() {
  const [asked, setAsked] = E2(
    /** @type {Asked | null} */
    null
  );
  ask = setAsked;
  return asked && html`<${PauseDialog} ...${asked} onClose=${() => setAsked(null)} />`;
}
var pauseColumn = (render) => ({
  key: "pause",
  label: html`<span class="sr">${t("pause.row")}</span>`,
  width: 2.9,
  priority: 2,
  render
});
var PauseName = ({ name }) => html`<${PauseButton} isIcon target=${{ job_name: name }} what=${t("pause.what.name", { name: visible(name) })} />`;
function PauseDialog({ target, what, onClose, onDone }) {
  const form = useForm(null, () => ({ reason: "", lasts: durationText(HOUR_MS) }));
  const save = async ({ reason, lasts = "" }) => {
    const end = endOf(lasts);
    if (lasts.trim() && end === null) throw unreadable("duration_s");
    const made = await post("api/pauses", {
      ...target,
      reason,
      ...end !== null && { duration_s: Math.ceil((end - nowMs()) / 1e3) }
    });
    await onDone?.();
    return { text: t("pause.begun", { what }), undo: () => endPause(made.name, onDone) };
  };
  return html`<${FormDialog} title=${t("pause.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("constraints.pause")}>
    <p><strong><${Text} value=${what} max=${200} /></strong></p><p class="muted">${t("pause.text")}</p>
    <${FormField} form=${form} name="reason" label=${t("pause.reason")} hint=${t("pause.reason.hint")} maxlength="500" />
    <${DurationField} form=${form} name="lasts" label=${t("pause.duration")} empty=${t("pause.forever")} path="duration_s" /><//>`;
}

// definitions/dialogs.js
var DAY_MS = 864e5;
var pathOf = (name, act) => (
  /** @type {const} */
  `api/definitions/${encodeURIComponent(name)}/${act}`
);
var resumeDefinition = (name, onDone) => attempt(() => post(pathOf(name, "resume")), t("definitions.resumed", { name: visible(name) })).then(onDone);
async function runDefinition(name, onDone) {
  let id = "";
  const isDone = await attempt(async () => ({ id } = await post(pathOf(name, "run"))), "");
  if (!isDone) return;
  toast(
    t("definitions.run.done", { name: visible(name), id: visible(id.slice(-10)) }),
    "ok",
    () => attempt(() => post(`api/jobs/${encodeURIComponent(id)}/cancel`), t("definitions.run.undone"))
  );
  await onDone();
}
var askAbout = () => {
};
function DefinitionDialogs() {
  const [asked, setAsked] = E2(
    /** @type {Asked | null} */
    null
  );
  askAbout = setAsked;
  if (!asked) return null;
  const props = { ...asked, onClose: () => setAsked(null) };
  switch (asked.what) {
    case "pause":
      return html`<${PauseDefinition} ...${props} />`;
    case "backfill":
      return html`<${Backfill} ...${props} />`;
    case "delete":
      return html`<${DeleteDefinition} ...${props} />`;
    default:
      return html`<${RunDefinition} ...${props} />`;
  }
}
function RowActions({ one, onDone }) {
  const { name } = one;
  const pause2 = `${t("constraints.pause")}: ${visible(name)}`;
  const resume = `${t("constraints.unpause")}: ${visible(name)}`;
  const run = `${t("definitions.run")}: ${visible(name)}`;
  return html`<span class="row-actions">
      ${one.enabled ? html`<button
              type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${pause2}
              title=${pause2} onClick=${() => askAbout({ what: "pause", name, onDone })}>
              <${Icon} name="pause" />
            </button>` : html`<button
              type="button" class="icon-button row-action" aria-label=${resume} title=${resume}
              onClick=${() => resumeDefinition(name, onDone)}>
              <${Icon} name="resume" />
            </button>`}${one.kind === "time" ? html`<button
              type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${run}
              title=${run} onClick=${() => askAbout({ what: "run", name, onDone })}>
              <${Icon} name="run" />
            </button>` : html`<span class="row-action"></span>`}
    </span>`;
}
function PauseDefinition({ name, onClose, onDone }) {
  const form = useForm(null, () => ({ reason: "" }));
  const save = async ({ reason }) => {
    await post(pathOf(name, "pause"), { reason });
    await onDone();
    const text = t("definitions.paused", { name: visible(name) });
    return { text, undo: () => resumeDefinition(name, onDone) };
  };
  return html`<${FormDialog} title=${t("definitions.pause.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("constraints.pause")}>
    <p><strong><${Text} value=${name} max=${100} /></strong></p><p class="muted">${t("definitions.pause.text")}</p>
    <${FormField} form=${form} name="reason" label=${t("pause.reason")} hint=${t("pause.reason.hint")} maxlength="500" /><//>`;
}
function RunDefinition({ name, onClose, onDone }) {
  return html`<${ConfirmCount}
      title=${t("definitions.run.title")} count=${1} verb=${t("definitions.run")} kind="primary"
      onClose=${onClose} onConfirm=${() => runDefinition(name, onDone)}>
      <p><strong><${Text} value=${name} max=${100} /></strong></p><p>${t("definitions.run.text")}</p>
    <//>`;
}
function DeleteDefinition({ name, onClose }) {
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const act = async () => {
    try {
      await del(`api/definitions/${encodeURIComponent(name)}`);
      toast(t("definitions.deleted", { name: visible(name) }));
      onClose();
      go("definitions");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("definitions.delete.title")} onClose=${onClose}>
      <p>${t("definitions.delete.text", { name: visible(name) })}</p><${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" onClick=${act}>${t("action.delete")}<//>
      </footer>
    <//>`;
}
function Backfill({ name, onClose, onDone }) {
  useZone();
  const [times] = usePref("times", "relative");
  const form = useForm(null, () => ({
    from: inputOf(new Date(nowMs() - DAY_MS).toISOString()).slice(0, 16) + ":00",
    to: inputOf(new Date(nowMs()).toISOString()).slice(0, 16) + ":00",
    also_forgotten: ""
  }));
  const range = {
    from: instantIn(form.values["from"] ?? ""),
    to: instantIn(form.values["to"] ?? "")
  };
  const { found, problem: uncounted } = useMissing(name, range);
  const missing = found ? found.due - found.fired_before : 0;
  const forgotten = found?.forgotten ?? 0;
  const isAsked = form.values["also_forgotten"] === "yes";
  const save = async () => {
    if (!found || missing === 0)
      throw new Problem(422, { title: t(found ? "definitions.backfill.none" : "action.counting") });
    if (forgotten > 0 && !isAsked) throw new Problem(422, { title: t("definitions.backfill.choose") });
    const done = await post(pathOf(name, "backfill"), {
      ...range,
      ...forgotten > 0 && { also_forgotten: true }
    });
    await onDone();
    return t("definitions.backfill.done", { count: done.started ?? 0 });
  };
  const problem = form.problem ?? uncounted;
  return html`<${FormDialog}
      title=${t("definitions.backfill.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${missing > 0 ? t("definitions.backfill.start", { count: missing }) : t("definitions.backfill")}>
      <p><strong><${Text} value=${name} max=${100} /></strong></p>
      <p class="muted">${t("definitions.backfill.text")}</p>
      <div class="form-grid">
        ${["from", "to"].map(
    (part) => html`<${FormField}
                key=${part} form=${form} name=${part} problem=${problem}
                label=${inZone(t(`definitions.backfill.${part}`))} type="datetime-local" step="1"
                max=${LATEST} />`
  )}
      </div>
      <p role="status" class="confirm-count">
        ${found ? html`<strong class="num">${missing}</strong> ${t("definitions.backfill.count", { count: missing, due: found.due, before: found.fired_before })}` : uncounted ? "–" : t("action.counting")}
      </p>
      ${forgotten > 0 && html`<p class="warning" role="note">
            ${t("definitions.backfill.forgotten", {
    count: forgotten,
    until: instantText(Date.parse(found?.forgotten_until ?? ""), times)
  })}
          </p>
          <${FormCheck} form=${form} name="also_forgotten">
            <span>${t("definitions.backfill.also_forgotten")}</span>
          <//>`}
    <//>`;
}
function useMissing(name, range) {
  const asked = JSON.stringify(range);
  const unknown = { of: asked, found: null, problem: null };
  const [counted, setCounted] = E2(
    /** @type {ReturnType<typeof useMissing> & {of: string}} */
    unknown
  );
  W2(() => {
    let isOver = false;
    const timer2 = setTimeout(() => {
      post(pathOf(name, "backfill"), { ...range, dry_run: true }).then(
        (found) => !isOver && setCounted({ of: asked, found, problem: null }),
        (error) => !isOver && setCounted({ of: asked, found: null, problem: error instanceof Problem ? error : null })
      );
    }, 300);
    return () => {
      isOver = true;
      clearTimeout(timer2);
    };
  }, [asked]);
  return counted.of === asked ? counted : unknown;
}

// shell/palette_sentences.js
var PAUSE = /^pause\b\s*(.*?)(?:\s+because\s+(.+))?$/i;
var PAUSE_JA = /^(.*?)(?:一時)?停止(?:[\s(:：（]+(.+?)[)）]?)?$/;
var subjectOf = (text) => wordsOf2(text)?.words[0] ?? "";
function wordsOf2(text) {
  const said = text.match(PAUSE) ?? text.match(PAUSE_JA);
  if (!said) return null;
  const [, rest = "", reason = ""] = said;
  return {
    words: rest.trim().replace(/\s*を\s*/, " ").split(/\s+/),
    reason
  };
}
var nameToPause = (name) => ({
  target: { job_name: name },
  what: t("pause.what.name", { name: visible(name) })
});
var constraintToPause = (name) => ({
  target: { constraint: name },
  what: t("pause.what.constraint", { name: visible(name) })
});
function sentence(text, { entries, present, session: session2, onPause }) {
  if (!may(session2, "operate")) return [];
  const said = wordsOf2(text);
  if (!said) return [];
  const { words, reason } = said;
  const [first = "", ...others] = words;
  const named = entries.find(
    (one) => (one.kind === "name" || one.kind === "constraint") && one.id.toLowerCase() === first.toLowerCase()
  );
  const what = named ? named.kind === "name" ? nameToPause(named.id) : constraintToPause(named.id) : present;
  const lasts = (named ? others : words).join(" ");
  if (what && !lasts) return [asking(what, onPause)];
  const end = endOf(lasts);
  if (!what || end === null) return [];
  const duration = durationText(Math.round((end - nowMs()) / 1e3) * 1e3);
  return [
    {
      key: "sentence",
      kind: t("palette.action"),
      label: t("palette.pause", { what: what.what, duration }),
      hint: visible(reason),
      act: () => pause(what, end, reason.trim())
    }
  ];
}
var asking = (what, onPause) => ({
  key: "ask pause",
  kind: t("palette.action"),
  label: `${t("constraints.pause")}: ${what.what}…`,
  act: () => onPause(what),
  keepsOpen: true
});
async function pause({ target, what }, end, reason) {
  let name = "";
  const body = { ...target, reason, duration_s: Math.max(1, Math.round((end - nowMs()) / 1e3)) };
  const isDone = await attempt(async () => ({ name } = await post("api/pauses", body)), "");
  if (isDone) toast(t("pause.begun", { what }), "ok", () => endPause(name));
}
function presentPausable({ page, query }) {
  const name = query["name"];
  if (!name) return null;
  if (page === "names" || page === "jobs") return nameToPause(name);
  return page === "constraints" ? constraintToPause(name) : null;
}

// shell/palette_acts.js
var ACTS = { job: jobActs, batches: batchActs, workers: workerActs, definitions: definitionActs };
async function presentActs(route, asked) {
  const { page, query } = route;
  const id = query["id"] ?? query["name"] ?? "";
  if (!id || !may(asked.session, "push")) return [];
  if (page !== "job" && !may(asked.session, "operate")) return [];
  const acts = ACTS[page ?? ""];
  if (acts) return acts(id, asked);
  const pausable = presentPausable(route);
  return pausable ? [pausing(pausable, asked)] : [];
}
async function jobActs(id, asked) {
  const path = (
    /** @type {const} */
    `api/jobs/${encodeURIComponent(id)}`
  );
  const job = await get(path, {}, asked.signal);
  const mayOperate = may(asked.session, "operate");
  asked.onKnown(nameToPause(job.name));
  return [
    ...mayOperate && admits(job.state, "retry") ? [command(id, "retry", `${path}/retry`, { attempt: job.attempt })] : [],
    ...mayOperate && admits(job.state, "run") ? [command(id, "run", `${path}/run`)] : [],
    ...admits(job.state, "cancel") ? [
      careful(id, "cancel", `${path}/cancel`, asked, {
        title: t("job.cancel.title"),
        count: 1,
        verb: t("job.cancel"),
        kind: "danger",
        text: t(job.state === "running" ? "job.cancel.running" : "job.cancel.text")
      })
    ] : [],
    ...mayOperate ? [pausing(nameToPause(job.name), asked)] : []
  ];
}
async function batchActs(id, asked) {
  const path = (
    /** @type {const} */
    `api/batches/${encodeURIComponent(id)}`
  );
  const { failed } = (await get(path, {}, asked.signal)).counts;
  if (failed === 0) return [];
  return [
    careful(id, "retry_failed", `${path}/retry`, asked, {
      title: t("batches.retry.title"),
      count: failed,
      counted: t("batches.retry.count", { count: failed }),
      verb: t("batches.retry"),
      kind: "primary",
      text: t("batches.retry.text")
    })
  ];
}
async function workerActs(id, { signal }) {
  const path = (
    /** @type {const} */
    `api/workers/${encodeURIComponent(id)}`
  );
  const worker = await get(path, {}, signal);
  const act = worker.state === "draining" ? "resume" : "drain";
  return worker.state === "detached" ? [] : [command(id, act, `${path}/${act}`)];
}
async function definitionActs(id, { signal }) {
  const path = (
    /** @type {const} */
    `api/definitions/${encodeURIComponent(id)}`
  );
  const definition = await get(path, {}, signal);
  const open = (what) => ({
    key: `present ${what}`,
    kind: t("palette.here"),
    label: `${t(`palette.here.${what === "run" ? "start" : what}`)}…`,
    hint: visible(id),
    act: () => askAbout({ what, name: id, onDone: () => {
    } })
  });
  return [
    ...definition.kind === "time" ? [open("run")] : [],
    definition.enabled ? open("pause") : command(id, "resume", `${path}/resume`)
  ];
}
var command = (id, act, path, body) => ({
  key: `present ${act}`,
  kind: t("palette.here"),
  label: t(`palette.here.${act}`),
  hint: visible(id),
  act: () => attempt(() => post(path, body), t("palette.done", { name: visible(id) }))
});
var careful = (id, act, path, { onAsk }, question) => ({
  key: `present ${act}`,
  kind: t("palette.here"),
  label: `${t(`palette.here.${act}`)}…`,
  hint: visible(id),
  act: () => onAsk({
    ...question,
    act: async () => {
      await post(path);
      toast(t("palette.done", { name: visible(id) }));
    }
  }),
  keepsOpen: true
});
var pausing = (what, { onPause }) => ({ ...asking(what, onPause), kind: t("palette.here") });

// shell/palette_index.js
var FRESH_MS = 2e4;
var MAX_NAMES = 500;
var MAX_LISTED = 200;
var EVENTS_READ = 100;
var index = null;
var knownIndex = (who) => index?.who === who ? index : null;
async function loadIndex(who, signal) {
  const known2 = knownIndex(who);
  if (known2 && Date.now() - known2.atMs < FRESH_MS) return known2;
  const [names, batches, workers, constraints, definitions, calendars, events] = await Promise.allSettled([
    get("api/names", { limit: MAX_NAMES }, signal),
    get("api/batches", { limit: MAX_LISTED }, signal),
    get("api/workers", {}, signal),
    get("api/constraints", {}, signal),
    get("api/definitions", { limit: MAX_LISTED }, signal),
    get("api/calendars", {}, signal),
    get("api/events", { limit: EVENTS_READ }, signal)
  ]);
  const namesFound = valueOf2(names)?.names ?? [];
  const definitionsFound = valueOf2(definitions)?.definitions ?? [];
  const types = new Set((valueOf2(events)?.events ?? []).map((event) => event.event_type));
  const entries = [
    ...namesFound.map(({ name }) => entry("name", name)),
    ...(valueOf2(constraints)?.constraints ?? []).map(
      (one) => entry("constraint", one.name, { more: one.reason })
    ),
    ...definitionsFound.map(({ name }) => entry("definition", name)),
    ...(valueOf2(workers)?.workers ?? []).map((one) => ({
      ...entry("worker", one.id, { label: one.node_id || one.id, hint: one.id, more: one.version }),
      isFresh: one.state === "fresh"
    })),
    ...(valueOf2(batches)?.batches ?? []).map(
      (one) => entry("batch", one.id, { label: titleOf(one), hint: one.id })
    ),
    ...(valueOf2(calendars)?.calendars ?? []).map((one) => entry("calendar", one.name, { more: one.country })),
    ...[...types].map((type) => entry("event", type))
  ];
  const isWhole = namesFound.length < MAX_NAMES && definitionsFound.length < MAX_LISTED && ![names, batches, constraints, definitions].some(isMissing);
  signal.throwIfAborted();
  index = { who, atMs: Date.now(), entries, isWhole };
  return index;
}
var isMissing = (result) => result.status === "rejected" && !(result.reason instanceof Problem && result.reason.status === 403);
var valueOf2 = (result) => result.status === "fulfilled" ? result.value : null;
function entry(kind, id, { label = id, hint = "", more = "" } = {}) {
  return {
    kind,
    id,
    label: visible(label),
    ...hint && { hint: visible(hint) },
    text: [label, id, more].filter(Boolean).join("\n").toLowerCase()
  };
}
function fitOf(one, wanted) {
  const at2 = one.text.indexOf(wanted);
  if (at2 < 0) return Infinity;
  const label = one.label.toLowerCase();
  if (label === wanted || one.id.toLowerCase() === wanted) return 0;
  return label.startsWith(wanted) ? 1 : 2;
}
function search(entries, text, most) {
  const wanted = text.toLowerCase();
  const counts = /* @__PURE__ */ new Map();
  return entries.map((one) => ({ one, fit: fitOf(one, wanted) })).filter(({ fit }) => fit < Infinity).sort((a2, b2) => a2.fit - b2.fit).map(({ one }) => one).filter((one) => {
    const count = (counts.get(one.kind) ?? 0) + 1;
    counts.set(one.kind, count);
    return count <= most;
  });
}

// shell/palette.js
var TYPING_MS2 = 200;
var MOST = 6;
var PATIENCE_MS = 5e3;
var JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
var KINDS = (
  /** @type {const} */
  {
    name: "job.name",
    batch: "batches.batch",
    constraint: "palette.constraint",
    definition: "palette.definition",
    calendar: "calendars.name",
    worker: "job.worker",
    event: "events.event"
  }
);
function Palette({ entries, session: session2, onHelp, onClose }) {
  const id = J2();
  const [text, setText] = E2("");
  const [at2, setAt] = E2(0);
  const [pausing2, setPausing] = E2(
    /** @type {Pausable | null} */
    null
  );
  const [question, setQuestion] = E2(
    /** @type {Question | null} */
    null
  );
  const [isWaiting, setWaiting] = E2(false);
  const hasMoved = j(false);
  const wanted = text.trim();
  const { commands, isComplete } = useCommands(wanted, entries, session2, setPausing, setQuestion, onHelp);
  W2(() => setAt(0), [wanted]);
  const chosen = Math.min(at2, commands.length - 1);
  const isSure = hasMoved.current || isComplete;
  const run = (command2) => {
    setWaiting(false);
    if (!command2) return;
    if (!command2.keepsOpen) onClose();
    void command2.act();
  };
  W2(() => {
    if (isWaiting && isSure) run(commands[chosen]);
  }, [isWaiting, isSure]);
  W2(() => {
    if (!isWaiting) return void 0;
    const timer2 = setTimeout(() => run(commands[chosen]), PATIENCE_MS);
    return () => clearTimeout(timer2);
  }, [isWaiting]);
  if (pausing2 !== null)
    return html`<${PauseDialog} target=${pausing2.target} what=${pausing2.what} onClose=${onClose} />`;
  if (question !== null) {
    const { act, text: consequence, ...asked } = question;
    return html`<${ConfirmCount} ...${asked} onConfirm=${act} onClose=${onClose}><p>${consequence}</p><//>`;
  }
  const point = (place2) => {
    hasMoved.current = true;
    setAt(place2);
  };
  const press = (event) => {
    if (event.isComposing) return;
    const step = (
      /** @type {Record<string, number>} */
      { ArrowDown: 1, ArrowUp: -1 }[event.key]
    );
    if (step) point((chosen + step + commands.length) % commands.length);
    else if (event.key === "Enter") {
      if (isSure) run(commands[chosen]);
      else setWaiting(true);
    } else return;
    event.preventDefault();
  };
  const type = (event) => {
    hasMoved.current = false;
    setWaiting(false);
    setText(event.target.value);
  };
  const title2 = namespace ? `${t("palette")} · ${visible(namespace)}` : t("palette");
  return html`<${Dialog} title=${title2} onClose=${onClose}>
      <div class="palette" aria-busy=${String(isWaiting)}>
        <input
          type="search" name="command" autofocus role="combobox" aria-expanded="true"
          aria-controls=${`${id}-list`} aria-activedescendant=${`${id}-${chosen}`}
          aria-label=${t("palette.hint")} placeholder=${t("palette.hint")} maxlength="200" autocomplete="off"
          autocapitalize="none" spellcheck=${false} value=${text} onInput=${type} onKeyDown=${press} />
        <p class="muted small" role="status">${isWaiting ? t("palette.waiting") : t("palette.example")}</p>
        <${CommandList} id=${id} commands=${commands} chosen=${chosen} onRun=${run} onPoint=${point} />
      </div>
    <//>`;
}
function CommandList({ id, commands, chosen, onRun, onPoint }) {
  const list = j(
    /** @type {HTMLElement | null} */
    null
  );
  W2(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return html`<ul ref=${list} id=${`${id}-list`} role="listbox" aria-label=${t("palette")}>
      ${commands.map(
    (command2, place2) => html`<li
            key=${command2.key} id=${`${id}-${place2}`} role="option" aria-selected=${String(place2 === chosen)}
            onClick=${() => onRun(command2)} onPointerMove=${() => onPoint(place2)}>
            <span class="palette-kind">${command2.kind}</span><span>${command2.label}</span>
            ${command2.hint && html`<span class="muted small">${command2.hint}</span>`}
          </li>`
  )}
    </ul>`;
}
function useCommands(wanted, entries, session2, onPause, onAsk, onHelp) {
  const route = useRoute();
  const index2 = useIndex(session2.who ?? "");
  const here = usePresent(route, session2, onPause, onAsk);
  const subject = may(session2, "operate") ? subjectOf(wanted) : "";
  const { found, of: of2 } = useFound(wanted, subject);
  const namespaces = useNamespaces();
  const isAnswered = of2 === wanted;
  const lower = wanted.toLowerCase();
  const things = wanted ? thingsOf(wanted, index2?.entries ?? [], isAnswered ? found.entries : []) : [];
  const isNamed = things.length > 0 && fitOf(
    /** @type {Entry} */
    things[0],
    lower
  ) === 0;
  const spoken = sentence(wanted, {
    entries: [...index2?.entries ?? [], ...found.entries],
    present: presentPausable(route) ?? here.pausable,
    session: session2,
    onPause
  });
  const fixed = [
    ...here.commands,
    ...entries.map(({ page }) => ({
      key: `page ${page}`,
      kind: t("palette.page"),
      label: t(`nav.${page}`),
      act: () => go(page)
    })),
    ...may(session2, "push") ? [sending()] : [],
    ...settings(onHelp),
    ...wanted ? namespaces.map(entering) : []
  ].filter((command2) => command2.label.toLowerCase().includes(lower));
  const told4 = things.flatMap((one) => commandsOf(one, session2, onPause));
  const named = isNamed ? [...told4, ...fixed] : [...fixed, ...told4];
  const isKnown = isNamed || spoken.length > 0 || JOB_ID.test(wanted);
  return {
    commands: wanted ? [...spoken, ...named, ...isAnswered ? found.jobs : [], searchJobs(wanted)] : fixed,
    isComplete: !wanted || isKnown || index2 !== null && (index2.isWhole && !subject || isAnswered)
  };
}
function thingsOf(wanted, indexed, found) {
  const lower = wanted.toLowerCase();
  const local = search(indexed, wanted, MOST);
  const known2 = new Set(local.map((one) => `${one.kind} ${one.id}`));
  const remote = found.filter((one) => !known2.has(`${one.kind} ${one.id}`) && fitOf(one, lower) < Infinity);
  return [...local, ...remote].sort((a2, b2) => fitOf(a2, lower) - fitOf(b2, lower));
}
function useIndex(who) {
  const [index2, setIndex] = E2(() => knownIndex(who));
  W2(() => {
    const aborter = new AbortController();
    loadIndex(who, aborter.signal).then(setIndex, () => {
    });
    return () => aborter.abort();
  }, [who]);
  return index2;
}
function usePresent(route, session2, onPause, onAsk) {
  const [commands, setCommands] = E2(
    /** @type {Command[]} */
    []
  );
  const [pausable, setPausable] = E2(
    /** @type {Pausable | null} */
    null
  );
  W2(() => {
    const aborter = new AbortController();
    const asked = { session: session2, onPause, onAsk, onKnown: setPausable, signal: aborter.signal };
    presentActs(route, asked).then(setCommands, () => {
    });
    return () => aborter.abort();
  }, [route.page, route.query["id"], route.query["name"]]);
  return { commands, pausable };
}
function useFound(wanted, subject) {
  const [state, setState] = E2({
    found: { entries: (
      /** @type {Entry[]} */
      []
    ), jobs: (
      /** @type {Command[]} */
      []
    ) },
    of: ""
  });
  W2(() => {
    if (!wanted) return void 0;
    const aborter = new AbortController();
    const timer2 = setTimeout(() => {
      ask2(wanted, subject, aborter.signal).then(
        (found) => setState({ found, of: wanted }),
        () => {
        }
      );
    }, TYPING_MS2);
    return () => {
      clearTimeout(timer2);
      aborter.abort();
    };
  }, [wanted, subject]);
  return state;
}
var sending = () => ({
  key: "send",
  kind: t("palette.action"),
  label: t("events.send"),
  act: () => go("events", { send: "*" })
});
var entering = ({ name, title: title2 }) => ({
  key: `namespace ${name}`,
  kind: t("namespaces.one"),
  label: visible(name),
  hint: visible(title2),
  act: () => location.assign(addressOf(name, "#/overview"))
});
var searchJobs = (text) => ({
  key: "search",
  kind: t("nav.jobs"),
  label: t("palette.search", { text: visible(text) }),
  act: () => JOB_ID.test(text) ? go("job", { id: text.toLowerCase() }) : go("jobs", { q: text })
});
function settings(onHelp) {
  const command2 = (key, act) => ({
    key,
    kind: t("palette.action"),
    label: t(`palette.${key}`),
    act
  });
  return [
    command2("light", () => setPref("theme", "light")),
    command2("dark", () => setPref("theme", "dark")),
    command2("utc", () => setPref("times", "utc")),
    command2("relative", () => setPref("times", "relative")),
    command2("keys", onHelp)
  ];
}
async function ask2(text, subject, signal) {
  const [named, names, batches, definitions, jobs] = await Promise.all([
    subject ? isName(subject, signal) : false,
    get("api/names", { q: text, limit: MOST }, signal),
    get("api/batches", { q: text, limit: MOST }, signal),
    get("api/definitions", { q: text, limit: MOST }, signal),
    get("api/jobs", { q: text, limit: MOST }, signal)
  ]);
  return {
    entries: [
      ...named ? [entry("name", subject)] : [],
      ...names.names.map(({ name }) => entry("name", name)),
      ...batches.batches.map((one) => entry("batch", one.id, { label: titleOf(one), hint: one.id })),
      ...definitions.definitions.map(({ name }) => entry("definition", name))
    ],
    jobs: jobs.jobs.slice(0, MOST).map((job) => ({
      key: `job ${job.id}`,
      kind: t("nav.job"),
      label: visible(job.name),
      hint: `${t(`state.${job.state}`)} · …${visible(job.id).slice(-10)}`,
      act: () => go("job", { id: job.id })
    }))
  };
}
var isName = (name, signal) => get(
  /** @type {const} */
  `api/names/${encodeURIComponent(name)}`,
  {},
  signal
).then(
  () => true,
  (error) => {
    if (error instanceof Problem && error.status === 404) return false;
    throw error;
  }
);
function commandsOf(one, session2, onPause) {
  const opens = {
    name: () => go("names", { name: one.id }),
    batch: () => go("batches", { id: one.id }),
    constraint: () => go("constraints", { name: one.id }),
    definition: () => go("definitions", { name: one.id }),
    calendar: () => go("calendars", { name: one.id }),
    worker: () => go("workers", { id: one.id }),
    event: () => go("events", { type: one.id })
  };
  const commands = [
    {
      key: `${one.kind} ${one.id}`,
      kind: t(KINDS[one.kind]),
      label: one.label,
      ...one.hint && { hint: one.hint },
      act: opens[one.kind]
    }
  ];
  if (!may(session2, "operate")) return commands;
  if (one.kind === "name")
    commands.push({
      key: `pause ${one.id}`,
      kind: t("palette.action"),
      label: `${t("constraints.pause")} ${one.label}…`,
      act: () => onPause(nameToPause(one.id)),
      keepsOpen: true
    });
  if (one.isFresh)
    commands.push({
      key: `drain ${one.id}`,
      kind: t("palette.action"),
      label: `${t("workers.drain")} ${one.label}`,
      ...one.hint && { hint: one.hint },
      act: () => drain(one.id)
    });
  return commands;
}
async function drain(id) {
  const path = (
    /** @type {const} */
    `api/workers/${encodeURIComponent(id)}`
  );
  if (await attempt(() => post(`${path}/drain`), ""))
    toast(t("workers.drained"), "ok", () => attempt(() => post(`${path}/resume`), t("workers.resumed")));
}

// shell/session.js
var TYPING_MS3 = 1e3;
var RETRY_MS2 = 2e3;
var lastKeyMs = 0;
addEventListener("keydown", () => lastKeyMs = Date.now(), true);
function useSession() {
  const [session2, setSession] = E2(
    /** @type {Session | null} */
    null
  );
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [isLoginWanted, setLoginWanted] = E2(false);
  const enter = (now) => {
    setSession(now);
    setLoginWanted(now.role === null && now.scopes.length === 0);
  };
  const refresh = async () => {
    try {
      enter(await fetchSession());
      setProblem(null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  const isIn2 = session2 !== null && !isLoginWanted;
  const again = useLoginAgain(isIn2, () => {
    setLoginWanted(true);
    void refresh();
  });
  W2(() => void refresh(), []);
  W2(() => {
    if (problem?.status !== 0) return void 0;
    const timer2 = setInterval(refresh, RETRY_MS2);
    return () => clearInterval(timer2);
  }, [problem]);
  W2(() => {
    if (isIn2 && may(session2, "read")) {
      start();
      if (session2?.has_namespaces) void loadNamespaces();
    }
  }, [isIn2, session2]);
  const enterAgain = (now) => {
    again.end();
    setSession(now);
  };
  const decline = () => {
    again.end();
    setSession(again.offered);
    setLoginWanted(true);
  };
  const leave = () => again.prevented(() => logOutHere(refresh));
  return { session: session2, problem, isIn: isIn2, offered: again.offered, refresh, enter, enterAgain, decline, leave };
}
function useLoginAgain(isIn2, onOut) {
  const [offered, setOffered] = E2(
    /** @type {Session | null} */
    null
  );
  const wasIn = j(isIn2);
  wasIn.current = isIn2;
  const isAsking = j(false);
  const ask3 = (now) => {
    if (Date.now() - lastKeyMs < TYPING_MS3) setTimeout(() => ask3(now), TYPING_MS3);
    else setOffered(now);
  };
  W2(() => {
    whenUnauthorized(() => {
      stop();
      if (!wasIn.current) onOut();
      else if (!isAsking.current) {
        isAsking.current = true;
        fetchSession().then(ask3, () => {
          isAsking.current = false;
        });
      }
    });
  }, []);
  return {
    offered,
    end: () => {
      isAsking.current = false;
      setOffered(null);
    },
    /** @param {() => Promise<unknown>} act The function to run. Calls of the API that are refused meanwhile do not open the login. */
    prevented: async (act) => {
      isAsking.current = true;
      if (await act()) isAsking.current = false;
    }
  };
}
async function logOutHere(refresh) {
  try {
    const elsewhere = await logOut();
    if (elsewhere) {
      stop();
      location.assign(elsewhere);
      return false;
    }
  } catch {
  }
  stop();
  await refresh();
  return true;
}

// shell/shortcuts.js
var CHORD_MS = 1500;
function Help({ entries, onClose }) {
  const [keys, setKeys] = usePref("keys", "on");
  const rows = [
    ...entries.map((entry2) => [`g ${entry2.key}`, t(`nav.${entry2.page}`)]),
    ["Ctrl K", t("palette")],
    ["/", t("search")],
    ["j / k", t("key.rows")],
    ["Enter", t("key.open")],
    ["x", t("key.select")],
    ["Escape", t("key.escape")],
    ["?", t("help.keys")]
  ];
  return html`<${Dialog} title=${t("help.keys")} onClose=${onClose}>
    <table class="keys"><tbody>${rows.map(([key, text]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" checked=${keys === "on"} onChange=${() => setKeys(keys === "on" ? "off" : "on")} /> ${t("keys.on")}</label>
  <//>`;
}
function useShortcuts(entries, onHelp, onPalette) {
  const [isOn] = usePref("keys", "on");
  const prefix = j({ key: "", at: 0 });
  W2(() => {
    const press = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.altKey) {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) onPalette();
        return;
      }
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing)
        return;
      const target = event.target;
      const isTyping = target instanceof HTMLElement && (target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox], [type=radio])"));
      if (event.key === "Escape" && target instanceof HTMLElement && !target.closest("dialog")) {
        for (const layer of [...keysInForce()].reverse())
          if (layer.keys["Escape"] && !isTyping) {
            layer.keys["Escape"]();
            return;
          }
        target.blur();
        return;
      }
      if (event.key === "Shift") return;
      if (isTyping || isOn !== "on" || document.querySelector("dialog[open]")) return;
      const chord = prefix.current.key && Date.now() - prefix.current.at < CHORD_MS ? `${prefix.current.key} ${event.key}` : "";
      prefix.current = { key: event.key === "g" ? "g" : "", at: Date.now() };
      const entry2 = entries.find((one) => chord === `g ${one.key}`);
      if (entry2) {
        event.preventDefault();
        const own = keysInForce().find((layer) => layer.keys[chord]);
        if (own) own.keys[chord]?.();
        else go(entry2.page);
        return;
      }
      if (event.key === "?") {
        event.preventDefault();
        onHelp();
        return;
      }
      for (const layer of [...keysInForce()].reverse()) {
        const act = chord && layer.keys[chord] || layer.keys[event.key];
        if (act) {
          event.preventDefault();
          act();
          return;
        }
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isOn]);
}

// ui/titles.js
var ofPage = "";
function usePageTitle(title2) {
  W2(() => {
    ofPage = title2;
    show(title2);
  }, [title2]);
}
function useTitle(title2) {
  W2(() => {
    if (title2 === null) return void 0;
    show(title2);
    return () => show(ofPage);
  }, [title2]);
}
function show(title2) {
  document.title = [visible(title2).slice(0, 120), namespace, "jqmaster"].filter(Boolean).join(" · ");
}

// core/curl.js
function curl(session2, method, path, { body, query } = {}) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push(shellWord(urlOf(path, query)));
  if (session2.method !== "local") parts.push("-H", '"Authorization: Bearer $TOKEN"');
  parts.push("-H", "'Accept: application/json'");
  if (body !== void 0) parts.push("-H", "'Content-Type: application/json'", "-d", shellWord(toJson(body)));
  return parts.join(" ");
}

// ui/comparison.js
var HOUR_S = 3600;
var DAY_S = 86400;
var PERIODS_S = { "1d": DAY_S, "7d": 7 * DAY_S };
var NOT_WITH = ["30d"];
var comparedPeriod = (word, span) => word !== void 0 && word in PERIODS_S && !NOT_WITH.includes(span) ? word : "";
var POLL_MS2 = 3e5;
function useEarlier(word, span, name) {
  const { data } = useResource(
    (signal) => word ? get("api/stats/history", { span, before: word, ...name && { name } }, signal) : Promise.resolve(null),
    [span, word, name],
    { everyMs: POLL_MS2, pollMs: POLL_MS2 }
  );
  return data;
}
var endsPerS = ({ succeeded, discarded = 0, failed, canceled, skipped }, stepS) => (succeeded + discarded + failed + canceled + skipped) / stepS;
function comparedWith(history2, word, xs, valueOf3) {
  const back = PERIODS_S[word];
  if (!history2 || !back) return null;
  const hours = new Map(
    history2.points.map((point) => [Math.floor(Date.parse(point.at) / 1e3 / HOUR_S), point])
  );
  const values2 = xs.map((x3) => {
    const point = hours.get(Math.floor((x3 - back) / HOUR_S));
    return point ? valueOf3(point, history2.step_s) : null;
  });
  return { label: t(`chart.before.${word}`), values: values2 };
}
var CompareWith = ({ word, span, link }) => NOT_WITH.includes(span) ? null : html`<nav class="spans" aria-label=${t("chart.compare")}>
        ${["", ...Object.keys(PERIODS_S)].map(
  (one) => html`<a
                key=${one} class="chip-link" href=${link(one)}
                aria-current=${one === word ? "true" : void 0}>
                ${t(one ? `chart.before.${one}` : "chart.before.none")}
              </a>`
)}
      </nav>`;

// definitions/runs.js
var STRIP = 30;
var LATE_MS = 1e3;
var latenessMs = (run) => run.outcome === "fired" && (run.reason === null || run.reason === "caught_up") ? Math.max(0, Date.parse(run.recorded_at) - Date.parse(run.due_at)) : null;
function kindOf(run) {
  if (run.outcome !== "fired") return run.outcome === "missed" ? "missed" : "left-out";
  if (!run.job_state) return "fired";
  return isIn(run.job_state, "finished") ? run.job_state : "going";
}
function reasonText2(reason) {
  const [, name] = /^calendar: (.*)$/s.exec(reason) ?? [];
  if (name === "workday") return t("definitions.left_out.workday");
  if (name) return t("definitions.reason.calendar", { name: visible(name) });
  return tOr(`definitions.reason.${reason}`, visible(reason));
}
var unfinished = (runs) => runs.filter((run) => kindOf(run) === "going").length;
function Unserved({ name, runs, served, class: more = "" }) {
  const count = unfinished(runs);
  if (count === 0 || served?.has(name) !== false) return null;
  const text = t("definitions.unserved", { count, name: visible(name) });
  return html`<a class=${`unserved ${more}`} title=${text} href=${href("names", { name })}>${text}</a>`;
}
function stripText(runs) {
  const counts = /* @__PURE__ */ new Map();
  for (const run of runs) counts.set(kindOf(run), (counts.get(kindOf(run)) ?? 0) + 1);
  const parts = [...counts].map(
    ([kind, count]) => `${number(count)} ${tOr(`definitions.kind.${kind}`, tOr(`state.${kind}`, kind))}`
  );
  return runs.length === 0 ? t("definitions.no_runs") : t("definitions.strip", { count: runs.length, parts: parts.join(", ") });
}
function RunStrip({ runs }) {
  const label = stripText(runs);
  const shown2 = runs.slice(0, STRIP).reverse();
  return html`<span class="run-strip" role="img" aria-label=${label} title=${label}>
      ${shown2.map(
    (run) => html`<i key=${`${run.due_at} ${run.event_id ?? run.moved_from ?? ""}`} class=${`run run-${kindOf(run)}`}></i>`
  )}
    </span>`;
}
var OUTCOME_KINDS = { fired: "ok", missed: "bad", waiting: "info" };
function Outcome({ run }) {
  const kind = OUTCOME_KINDS[run.outcome] ?? "off";
  return html`<${Badge} kind=${kind}>${tOr(`definitions.outcome.${run.outcome}`, visible(run.outcome))}<//>
    ${run.reason && html` <span class="muted">${reasonText2(run.reason)}</span>`}
    ${run.moved_from && html` <span class="muted">${t("definitions.moved_from", { day: run.moved_from.slice(0, 10) })}</span>`}`;
}
function Lateness({ run }) {
  const ms4 = run ? latenessMs(run) : null;
  if (ms4 === null) return html`<${Num} value=${null} />`;
  return ms4 >= LATE_MS ? html`<${Badge} kind="warn">${durationText(ms4)}<//>` : html`<span class="muted"><${Duration} ms=${ms4} /></span>`;
}
function RunJob({ run }) {
  if (!run.job_id) return html`<${Num} value=${null} />`;
  return html`<${Id} id=${run.job_id} href=${href("job", { id: run.job_id })} /> ${run.job_state ? html`<${State} state=${run.job_state} />` : html`<span class="muted">${t("definitions.job_gone")}</span>`}`;
}

// workers/labels.js
var labelsIn = (text) => Object.fromEntries(
  text.split(",").map((one) => one.trim()).filter(Boolean).map((one) => {
    const at2 = one.indexOf("=");
    return at2 < 0 ? [one, ""] : [one.slice(0, at2).trim(), one.slice(at2 + 1).trim()];
  })
);
var labelsText = (labels) => Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ");

// constraints/pauses.js
var isPause = (name) => name.startsWith("pause-");
var concerns = (matcher, other) => toJson(matcher) === toJson(other) || "all" in matcher && matcher.all.length === 2 && toJson(matcher.all[0]) === toJson(other);
function pausedText(matcher) {
  if ("field" in matcher && matcher.op === "eq") {
    const subject = visible(String(matcher.value));
    if (matcher.field === "name") return t("pause.what.name", { name: subject });
    if (matcher.field === "tags") return t("pause.what.tag", { tag: subject });
  }
  const last = "all" in matcher ? matcher.all.at(-1) : void 0;
  return last && "field" in last ? t("pause.what.value", { key: visible(last.field), value: visible(toJson(last.value)) }) : t("pause.what.matcher");
}
function usePausedNames() {
  const { data } = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints"],
    leastMs: 2e3,
    everyMs: 15e3
  });
  const pauses = (data?.constraints ?? []).filter((one) => one.enabled && isPause(one.name));
  return new Set(pauses.flatMap((one) => namesOf(one.matcher)));
}
var namesOf = (matcher) => "field" in matcher && matcher.field === "name" && matcher.op === "eq" ? [String(matcher.value)] : [];
function Pauses({ mayOperate, isOf = () => true }) {
  const { data, reload } = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints", "jobs"],
    leastMs: 2e3,
    everyMs: 5e3
  });
  const pauses = (data?.constraints ?? []).filter((one) => isPause(one.name) && isOf(one.matcher));
  if (pauses.length === 0) return null;
  return html`<section class="card paused-now" aria-labelledby="paused">
      <h2 id="paused">${t("pause.now")}</h2>
      <ul class="plain">
        ${pauses.map(
    (one) => html`<li key=${one.name} class="row">
              <a href=${href("constraints", { name: one.name })}>
                <strong>${pausedText(one.matcher)}</strong>
              </a>
              ${one.reason && html`<span><${Text} value=${one.reason} max=${200} /></span>`}
              <span class="muted">
                ${one.created_by && html`${t("audit.by")} <span title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</span> · `}
                <${Time} at=${one.created_at} /> · ${one.expires_at ? html`${t("pause.ends")} <${Time} at=${one.expires_at} />` : t("pause.forever")}
              </span>
              <span class="num">${t("pause.waiting", { count: one.usage.waiting ?? 0 })}</span>
              ${mayOperate && html`<${Button} class="small" onClick=${() => endPause(one.name, reload)}>${t("constraints.unpause")}<//>`}
            </li>`
  )}
      </ul>
    </section>`;
}

// jobs/verdicts.js
var MAX_VALUE2 = 60;
var UNAVAILABLE = (
  /** @type {const} */
  ["full", "draining", "broken", "paused", "refusing", "pulling"]
);
var MAX_NAMED_JOBS = 3;
function noWorkerText(verdict) {
  const known2 = verdict.stale + verdict.detached;
  const key = known2 > 0 ? "why.text.no_worker.silent" : verdict.similar ? "why.text.no_worker.similar" : "why.text.no_worker";
  return t(key, { name: visible(verdict.name), count: known2, similar: visible(verdict.similar ?? "") });
}
function nearText({ node_id, worker_id, missing }) {
  const lacks = Object.entries(missing).map(
    ([label, { wanted, has }]) => t(has === null ? "why.text.near.none" : "why.text.near.other", {
      label: visible(label),
      has: visible(has ?? ""),
      wanted: visible(wanted)
    })
  );
  return t(node_id ? "why.text.near.host" : "why.text.near", {
    worker: visible(node_id || worker_id),
    lacks: lacks.join(", ")
  });
}
function verdictText(verdict, why, { nameOf: nameOf7 = () => "", question = "" } = {}) {
  switch (verdict.code) {
    case "constraint":
      return constraintText(verdict, why);
    case "scheduled":
    case "retrying":
      return dueText(verdict);
    case "ahead":
      return aheadText(verdict);
    case "no_worker":
      return noWorkerText(verdict);
    case "no_matching_worker":
      return t("why.text.no_matching_worker", {
        name: visible(verdict.name),
        count: verdict.workers,
        labels: visible(labelsText(verdict.requires)),
        nearest: verdict.nearest.map(nearText).join("; ")
      });
    case "workers_unavailable":
      return unavailableText(verdict);
    case "running":
      return runningText(verdict);
    case "awaiting_jobs":
      return t("why.text.awaiting_jobs", {
        count: verdict.count,
        jobs: verdict.jobs.slice(0, MAX_NAMED_JOBS).map(
          (job) => `${nameOf7(job.id) || `…${job.id.slice(-10)}`} (${job.state ? t(`state.${job.state}`) : "–"})`
        ).join(", ") + (verdict.count > MAX_NAMED_JOBS ? ", …" : "")
      });
    case "awaiting_callback":
      return verdict.answered ? t("why.text.answered", { attempt: verdict.attempt }) : t(question ? "why.text.awaiting_answer" : "why.text.awaiting_callback", {
        attempt: verdict.attempt,
        question: visible(question),
        due: verdict.due_at ? relativeText(Date.parse(verdict.due_at)) : "–"
      });
    default:
      return tOr(`why.text.${verdict.code}`, visible(verdict.text));
  }
}
function runningText({ confirmed, attempt: attempt2, since, earlier_end }) {
  const text = t(confirmed ? "why.text.running" : "why.text.offered", {
    attempt: attempt2,
    since: relativeText(Date.parse(since))
  });
  return earlier_end ? `${text} ${t("why.text.earlier_end")}` : text;
}
function dueText(verdict) {
  const text = t(`why.text.${verdict.code}`, {
    due: relativeText(Date.parse(verdict.due_at)),
    count: verdict.failures
  });
  return verdict.put_off ? `${text} ${t("why.text.put_off", { reason: visible(verdict.put_off) })}` : text;
}
function unitsReason(kind, weight, { concurrency, rate }) {
  const isRate = kind === "rate";
  const reason = t(isRate ? "why.text.rate.units" : "why.text.concurrency.units", {
    used: number((isRate ? weight.in_window : weight.running) ?? 0),
    limit: number((isRate ? rate?.limit : concurrency) ?? 0),
    unit: weight.unit,
    job: number(weight.job),
    ...isRate && rate && { period: durationText(rate.period_s * 1e3) }
  });
  return weight.is_too_heavy ? `${reason} ${t("why.text.too_heavy")}` : reason;
}
var appliedTo = (verdict, why) => why.constraints.find((one) => one.name === verdict.name && one.key_value === verdict.key_value) ?? {};
var clockAt = (at2) => clockText(Date.parse(at2), pref("times", "relative"));
function pauseText({ paused_by, opens_at, reason, waiting }) {
  const by = paused_by ? t("why.text.pause.by", { who: visible(whoText(paused_by)) }) : "";
  const until = opens_at ? t("why.text.pause.until", { time: clockAt(opens_at) }) : t("why.text.pause.resumed");
  const why = reason ? t("why.text.pause.reason", { reason: visible(reason) }) : "";
  const others = waiting > 1 ? ` ${t("why.text.pause.waiting", { count: waiting })}` : "";
  return t("why.text.pause", { by, until, reason: why }) + others;
}
function constraintText(verdict, why) {
  if (verdict.kind === "paused" && isPause(verdict.name)) return pauseText(verdict);
  const applied = appliedTo(verdict, why);
  const what = verdict.key ? `${visible(verdict.name)} (${visible(verdict.key)} = ${visible(String(verdict.key_value ?? "")).slice(0, MAX_VALUE2)})` : visible(verdict.name);
  const reasons = verdict.kinds.map((kind) => {
    const isFirst = kind === verdict.kind;
    if (applied.weight && (kind === "concurrency" || kind === "rate"))
      return unitsReason(kind, applied.weight, applied);
    if (kind === "concurrency")
      return t("why.text.concurrency", {
        used: (isFirst ? verdict.usage : applied.running) ?? 0,
        limit: (isFirst ? verdict.limit : applied.concurrency) ?? 0
      });
    if (kind === "rate")
      return t("why.text.rate", {
        used: (isFirst ? verdict.usage : applied.starts) ?? 0,
        limit: (isFirst ? verdict.limit : applied.rate?.limit) ?? 0,
        period: durationText(((isFirst ? verdict.period_s : applied.rate?.period_s) ?? 0) * 1e3)
      });
    if (kind === "paused" && verdict.opens_at)
      return t("why.text.paused.until", { time: clockAt(verdict.opens_at) });
    return tOr(`why.text.${kind}`, kind);
  });
  const others = verdict.waiting > 1 ? [t("why.text.waiting", { count: verdict.waiting })] : [];
  const wait = expectedWaitMs(verdict, why);
  const eta = wait === null ? [] : [t("why.text.eta", { duration: durationText(wait) })];
  return [t("why.text.constraint", { what, reasons: reasons.join("; ") }), ...others, ...eta].join(" ");
}
function expectedWaitMs(verdict, why) {
  if (verdict.kinds.join() !== "rate" || !verdict.limit || !verdict.opens_at) return null;
  if (appliedTo(verdict, why).weight) return null;
  const ahead = why.verdicts.find((one) => one.code === "ahead");
  if (!ahead) return null;
  const opensMs = Math.max(0, Date.parse(verdict.opens_at) - Date.parse(why.as_of));
  return opensMs + Math.floor(ahead.count / verdict.limit) * (verdict.period_s ?? 0) * 1e3;
}
function aheadText(verdict) {
  if (!verdict.count) return t("why.text.ahead.unknown");
  const others = Object.entries(verdict.others).slice(0, 3);
  const text = t(`why.text.ahead.${verdict.bound}`, { count: verdict.count });
  if (others.length === 0) return text;
  return `${text} ${t("why.text.ahead.others", {
    names: others.map(([name, count]) => `${visible(name)} (${number(Number(count))})`).join(", ")
  })}`;
}
var workersText = (verdict) => verdict.code === "no_worker" ? noWorkerText(verdict) : unavailableText(verdict);
function unavailableText(verdict) {
  const parts = UNAVAILABLE.filter((key) => verdict[key]).map(
    (key) => t(`why.text.workers.${key}`, { count: verdict[key] ?? 0 })
  );
  return t("why.text.workers_unavailable", {
    name: visible(verdict.name),
    count: verdict.workers,
    reasons: parts.join(", ")
  });
}

// operations/findings.js
var EVENTS2 = ["jobs", "constraints", "workers", "masters", "definitions"];
var POLL_MS3 = 2500;
var MAX_SUBJECT = 200;
var LINKS = {
  no_leader: () => ({ page: "masters" }),
  late_leader: () => ({ page: "masters" }),
  stale_masters: () => ({ page: "masters" }),
  duty: () => ({ page: "masters" }),
  store: () => ({ page: "settings" }),
  no_worker: () => ({ page: "workers" }),
  stale_workers: () => ({ page: "workers", query: { state: "stale" } }),
  dead_worker: workerLink,
  replaced_worker: workerLink,
  orphan: ({ name = "" }) => ({ page: "jobs", query: { state: "ready", name }, act: t("fault.orphan.act") }),
  wait: ({ job_id = "" }) => ({ page: "job", query: { id: job_id }, act: t("fault.wait.act") }),
  failing: ({ name = "" }) => ({ page: "failures", query: { name } }),
  rising: () => ({ page: "failures" }),
  late_definition: definitionLink,
  missed_instant: definitionLink,
  skipping_definition: definitionLink,
  calendar_ends: ({ name = "" }) => ({ page: "calendars", query: { name } }),
  full: constraintLink,
  pause: constraintLink,
  paused: constraintLink,
  paused_values: constraintLink,
  growth: () => ({ page: "names" }),
  drains: () => ({ page: "names" })
};
function workerLink({ id = "" }) {
  return { page: "workers", query: { id }, act: t("fault.dead_worker.act") };
}
function definitionLink({ name = "" }) {
  return { page: "definitions", query: { name } };
}
function constraintLink({ name = "" }) {
  return { page: "constraints", query: { name } };
}
function useHealth() {
  const health = useResource((signal) => get("api/health", {}, signal), [], {
    events: EVENTS2,
    leastMs: POLL_MS3,
    everyMs: POLL_MS3,
    pollMs: POLL_MS3
  });
  const known2 = j(
    /** @type {Verdict | null} */
    null
  );
  if (health.data?.at) known2.current = health.data;
  const isKnown = health.data !== null && health.data === known2.current;
  const before = isKnown ? [] : known2.current?.findings ?? [];
  return { ...health, findings: [...health.data?.findings ?? [], ...before], isKnown };
}
function linkOf({ code, figures: figures2 }) {
  const { page, query, act } = LINKS[code]?.(
    /** @type {Record<string, string>} */
    figures2
  ) ?? {};
  return page ? { href: href(page, query), act: act ?? t(`nav.${page}`) } : null;
}
var worst = (findings, ...codes) => findings.find((finding) => codes.includes(finding.code))?.severity ?? "";
function findingText({ code, text, figures: figures2 }) {
  switch (code) {
    case "full":
      return limitText(
        /** @type {LimitFigures} */
        figures2
      );
    case "pause":
    case "paused":
    case "paused_values":
      return pauseText2(
        code,
        /** @type {PauseFigures} */
        figures2
      );
    case "dead_worker":
      return t(figures2["count"] ? "health.dead_worker" : "health.dead_worker.idle", shown(figures2));
    case "wait":
      return t(figures2["cause"] ? "health.wait" : "health.wait.no_cause", {
        ...shown(figures2),
        cause: causeText2(figures2)
      });
    case "failing":
      return t("health.failing", { ...shown(figures2), kind: kindText(figures2) }).trim();
    default: {
      const key = `health.${code}`;
      return tOr(key, "") ? t(key, shown(figures2)).trim() : visible(text);
    }
  }
}
function causeText2({ cause, cause_code: code, ...figures2 }) {
  return code === "no_worker" || code === "workers_unavailable" ? workersText(
    /** @type {Parameters<typeof workersText>[0]} */
    /** @type {unknown} */
    { ...figures2, code }
  ) : visible(String(cause ?? ""));
}
function kindText({ kind, mark, cause, version, began_at: began }) {
  const key = `health.failing.${mark}${version ? ".version" : ""}`;
  if (!tOr(key, "")) return visible(String(kind ?? ""));
  return t(key, {
    cause: tOr(`cause.${cause}`, visible(String(cause))),
    began: relativeText(Date.parse(String(began))),
    version: visible(String(version))
  });
}
function shown(figures2) {
  const found = {};
  for (const [key, value] of Object.entries(figures2)) {
    if (value === null) continue;
    if (key === "share") found[key] = percent(Number(value));
    else if (key === "latency_ms") found["duration"] = durationText(Number(value));
    else if (key === "wait_ms") found["duration"] = durationText(steadyMs(Number(value)));
    else if (key === "eta_ms") found["eta"] = durationText(Number(value), true);
    else if (key === "used" || key === "most") found[key] = bytesText(Number(value));
    else if (key === "reason") found["cause"] = reasonText2(String(value));
    else if (key.endsWith("_at")) found[key.slice(0, -3)] = relativeText(Date.parse(String(value)));
    else found[key] = typeof value === "string" ? visible(value) : value;
  }
  return found;
}
var percent = (share) => number(share, { style: "percent", maximumFractionDigits: share > 0 && share < 0.1 ? 1 : 0 });
function limitText({ value, held, count, rate, slots, running, eta_ms, held_until, used, ...figures2 }) {
  const { closed_keys: closed2, keys, since_at: since } = figures2;
  const name = visible(figures2.name);
  const unit = visible(figures2.unit ?? "");
  return [
    closed2 ? t("health.full_values", { name, count: held, keys: closed2, all: keys ?? closed2 }) : t("health.full", { name, count: held }),
    value !== null && t("health.full_value", { count, value: visible(value) }),
    rate && (unit ? t("health.full.units_rate", { rate: visible(rate), used: number(used ?? 0) }) : t("health.full.rate", { rate: visible(rate), eta: durationText(eta_ms ?? 0, true) })),
    slots && (unit ? t("health.full.units", { running: number(running ?? 0), slots: number(slots), unit }) : t("health.full.slots", { running: running ?? 0, slots })),
    held_until && t("health.full.held", { until: relativeText(Date.parse(held_until)) }),
    since && t("health.full.since", { duration: durationText(steadyMs(nowMs() - Date.parse(since))) })
  ].filter(Boolean).join(" ");
}
function pauseText2(code, { name, of: of2, subject, key, by, reason, count, values: values2, since_at, until_at }) {
  const shownSubject = visible(subject.slice(0, MAX_SUBJECT));
  const since = relativeText(Date.parse(since_at));
  const what = t(`pause.what.${of2}`, {
    name: shownSubject,
    tag: shownSubject,
    key: visible(key),
    value: shownSubject
  });
  const first = code === "pause" ? t(by ? "health.pause_by" : "health.pause", { what, since, who: visible(whoText(by)) }) : t(`health.${code}`, { name: visible(name), since, count: values2, values: shownSubject });
  return [
    first,
    t("health.pause.waiting", { count }),
    reason && `“${visible(reason).slice(0, 200)}”`,
    until_at && t("health.pause.until", { until: relativeText(Date.parse(until_at)) })
  ].filter(Boolean).join(" ");
}

// operations/health_line.js
var KINDS2 = { ok: "ok", waiting: "info", degraded: "warn", broken: "bad" };
function HealthLine({ verdict, findings }) {
  if (!verdict) return html`<p class="health" aria-hidden="true">${" "}</p>`;
  const { status: status2, command: command2 } = verdict;
  const [first] = findings;
  const isWell = status2 === "ok" || status2 === "waiting";
  const text = first && status2 !== "ok" ? countsOf2(findings) ?? findingText(first) : t("health.none");
  return html`<p class="health" role="status">
      <${Badge} kind=${KINDS2[status2] ?? "info"}>${tOr(`health.status.${status2}`, visible(status2))}<//> <span>
        ${text}${isWell && ` ${t("health.nothing_broken")}`}
      </span>
      ${command2 && html` <span class="muted">${t("health.command")} <code>${visible(command2)}</code></span>`}
    </p>`;
}
function countsOf2(findings) {
  if (findings[0]?.severity !== "bad") return null;
  return (
    /** @type {const} */
    ["bad", "warn"].map((kind) => ({ kind, count: findings.filter((finding) => finding.severity === kind).length })).filter(({ count }) => count > 0).map(({ kind, count }) => t(`health.count.${kind}`, { count })).join(t("health.count.and"))
  );
}

// ui/returns.js
function leaveFor(row) {
  history.replaceState({ row, top: scrollY }, "");
}
function useReturn(rows) {
  W2(() => {
    const left = history.state;
    if (!rows || typeof left?.row !== "string") return;
    history.replaceState(null, "");
    scrollTo(0, left.top);
    for (const row of document.querySelectorAll("tr[data-key]"))
      if (row instanceof HTMLElement && row.dataset["key"] === left.row) row.focus({ preventScroll: true });
  }, [rows !== ""]);
}

// ui/tables.js
function Table(props) {
  const { caption, columns: columns3, rows, rowKey, onOpen, selected, onSelect, empty, isFixed = false } = props;
  const body = j(
    /** @type {HTMLElement | null} */
    null
  );
  const keys = y(() => rows.map(rowKey), [rows]);
  const toggle = useToggle(keys, selected, onSelect);
  useRowKeys(body, keys, onSelect && ((key) => toggle(key, false)));
  useReturn(onOpen ? keys.join() : "");
  if (rows.length === 0 && empty) return empty;
  const hasLines = columns3.some((column) => column.phone);
  return html`<div
      class=${`table-box ${isFixed ? "fixed" : ""} ${hasLines ? "lines" : ""}`} tabindex="0" role="region"
      aria-label=${caption}>
      <table>
        <caption class="sr">${caption}</caption>
        <thead>
          <tr>
            ${onSelect && html`<${PickAll} keys=${keys} selected=${selected} onSelect=${onSelect} />`}
            ${columns3.map((column) => html`<${Heading} key=${column.key} column=${column} table=${props} />`)}
          </tr>
        </thead>
        <tbody ref=${body}>
          ${rows.map((row, at2) => {
    const key = keys[at2] ?? "";
    return html`<${TableRow} key=${isFixed ? at2 : key} row=${row} id=${key} table=${props} toggle=${toggle} />`;
  })}
        </tbody>
      </table>
    </div>`;
}
function useToggle(keys, selected, onSelect) {
  const lastPicked = j(
    /** @type {string | null} */
    null
  );
  return z2(
    (key, isRange) => {
      if (!selected || !onSelect) return;
      const next = new Set(selected);
      const from = isRange && lastPicked.current ? keys.indexOf(lastPicked.current) : -1;
      const to2 = keys.indexOf(key);
      if (from >= 0) for (const one of keys.slice(Math.min(from, to2), Math.max(from, to2) + 1)) next.add(one);
      else if (!next.delete(key)) next.add(key);
      lastPicked.current = key;
      onSelect(next);
    },
    [selected, onSelect, keys]
  );
}
function useRowKeys(body, keys, pick) {
  const elements = () => (
    /** @type {HTMLElement[]} */
    [...body.current?.children ?? []]
  );
  const focused = () => elements().findIndex((row) => row.contains(document.activeElement));
  const focus = (at2) => elements()[at2]?.focus();
  useKeys({
    j: () => focus(Math.min(keys.length - 1, focused() + 1)),
    k: () => focus(Math.max(0, focused() - 1)),
    ...pick && {
      x: () => {
        const key = keys[focused()];
        if (key) pick(key);
      }
    }
  });
}
function PickAll({ keys, selected, onSelect }) {
  const isAll = keys.length > 0 && keys.every((key) => selected?.has(key));
  const change2 = () => {
    const next = new Set(selected);
    for (const key of keys) {
      if (isAll) next.delete(key);
      else next.add(key);
    }
    onSelect(next);
  };
  return html`<th scope="col" class="pick">
      <label class="pick-box">
        <input type="checkbox" aria-label=${t("select.page")} checked=${isAll} onChange=${change2} />
      </label>
    </th>`;
}
function Heading({ column, table: { sort, isAscending = false, onSort, isFixed = false } }) {
  const isSorted = Boolean(column.sort) && sort === column.sort;
  return html`<th
      scope="col" class=${columnClass(column)}
      style=${isFixed && column.width ? { width: `${column.width}rem` } : void 0}
      aria-sort=${isSorted ? isAscending ? "ascending" : "descending" : void 0}>
      ${column.sort && onSort ? html`<button
              type="button" class="sort" onClick=${() => onSort(
    /** @type {string} */
    column.sort
  )}>
              ${column.label}${isSorted ? isAscending ? " ▴" : " ▾" : ""}
            </button>` : column.label}
    </th>`;
}
function TableRow({ row, id, table, toggle }) {
  const { columns: columns3, onOpen, rowClass, selected, onSelect, label } = table;
  const isPicked = selected?.has(id) ?? false;
  return html`<tr
      data-key=${id} tabindex="-1"
      class=${`${rowClass?.(row) ?? ""} ${isPicked ? "picked" : ""} ${onOpen ? "opens" : ""}`}
      aria-selected=${onSelect ? String(isPicked) : void 0}
      onKeyDown=${(e2) => {
    if (e2.key === "Enter" && e2.target === e2.currentTarget && onOpen) {
      leaveFor(id);
      onOpen(row);
    }
  }} onClick=${(e2) => {
    if (onOpen) leaveFor(id);
    if (onOpen && !isControl(e2.target) && !hasSelection()) onOpen(row);
  }}>
      ${onSelect && html`<td class="pick">
            <label class="pick-box">
              <input
                type="checkbox" aria-label=${t("select.row", { name: visible(label?.(row) ?? id) })}
                checked=${isPicked} onClick=${(e2) => {
    e2.stopPropagation();
    toggle(id, e2.shiftKey);
  }} />
            </label>
          </td>`}
      ${columns3.map(
    (column) => html`<td
              key=${column.key} class=${columnClass(column)}
              data-label=${typeof column.label === "string" ? column.label : void 0}>
              ${column.render(row)}
            </td>`
  )}
    </tr>`;
}
function columnClass(column) {
  return `col-${column.key} ${column.align === "end" ? "end" : ""} ${column.priority ? `p${column.priority}` : ""} ${column.phone ? `at-${column.phone}` : ""}`;
}
function isControl(target) {
  return target instanceof Element && target.closest("a, button, input, select, textarea, label, summary") !== null;
}
function hasSelection() {
  return (window.getSelection()?.toString() ?? "") !== "";
}
function useHold() {
  const [isOver, setOver] = E2(false);
  const [isFocused, setFocused] = E2(false);
  return {
    isHeld: isOver || isFocused,
    bind: {
      onPointerEnter: (e2) => {
        if (e2.pointerType === "mouse") setOver(true);
      },
      onPointerLeave: () => setOver(false),
      onFocusIn: () => setFocused(true),
      onFocusOut: (e2) => {
        if (!(e2.relatedTarget instanceof globalThis.Node) || !/** @type {Element} */
        e2.currentTarget.contains(e2.relatedTarget))
          setFocused(false);
      }
    }
  };
}
function useSteadyRows(rows, rowKey, isHeld, of2) {
  const shown2 = j({ rows, of: of2 });
  const [, redraw] = E2(0);
  if (!isHeld || shown2.current.of !== of2 || shown2.current.rows.length === 0) shown2.current = { rows, of: of2 };
  const newest = new Map(rows.map((row) => [rowKey(row), row]));
  const known2 = new Set(shown2.current.rows.map(rowKey));
  return {
    rows: shown2.current.rows.map((row) => newest.get(rowKey(row)) ?? row),
    newCount: rows.filter((row) => !known2.has(rowKey(row))).length,
    showNew: () => {
      shown2.current = { rows, of: of2 };
      redraw((n) => n + 1);
    }
  };
}
function NewRows({ count, onShow }) {
  return html`<div class="new-rows" aria-live="polite">${count > 0 && html`<${Button} kind="primary" onClick=${onShow}>${t("rows.new", { count })}<//>`}</div>`;
}

// operations/tiles.js
function Tiles({ stats, findings }) {
  const { counts, rates } = stats;
  const wait = stats.oldest_wait_ms;
  const perS = (rate) => number(rate, { maximumFractionDigits: rate < 10 ? 2 : 0 });
  const tile = (state, more, kind = "") => html`<a class=${`tile ${kind}`} href=${href("jobs", { state })}>
        <span class="tile-label"><${State} state=${state} /></span>
        <b><${Num} value=${counts[state] ?? 0} /></b><span class="tile-more">${more ?? " "}</span>
      </a>`;
  return html`<div class="tiles">
      ${tile(
    "ready",
    wait === null ? t("tile.nothing_waits") : t("tile.oldest", { duration: durationText(steadyMs(wait)) }),
    worst(findings, "wait", "orphan", "no_worker")
  )}
      ${tile("running", t("tile.slots", { busy: stats.workers.busy, all: stats.workers.max_jobs }))}
      ${tile("retrying", t("tile.per_s", { rate: perS(rates.retried) }), counts["retrying"] ? "warn" : "")}
      ${tile("scheduled")}
      ${tile("failed", t("tile.per_s", { rate: perS(rates.failed) }), worst(findings, "failing", "rising"))}
      ${tile("succeeded", t("tile.per_s", { rate: perS(rates.succeeded) }))}
      ${(counts["discarded"] || rates.discarded || 0) > 0 && tile("discarded", t("tile.per_s", { rate: perS(rates.discarded ?? 0) }))}
      <div class="tile">
        <span class="tile-label">${t("tile.pushed")}</span><b class="num">${perS(rates.pushed)}</b>
        <span class="tile-more">${t("tile.last_minute")}</span>
      </div>
    </div>`;
}

// operations/snoozes.js
var DEFAULT_MS = 30 * 6e4;
var MOST2 = 200;
function useSnoozed() {
  const [known2, setKnown] = usePref("snoozed", {});
  const all = Object.entries(known2 ?? {}).filter(([, until]) => typeof until === "number" && until > nowMs());
  const ends = all.map(([, until]) => Number(until));
  const first = Math.min(...ends);
  W2(() => {
    if (!Number.isFinite(first)) return void 0;
    const timer2 = setTimeout(
      () => setKnown(Object.fromEntries(all.filter(([, until]) => Number(until) > nowMs()))),
      Math.min(first - nowMs() + 100, 2 ** 31 - 1)
    );
    return () => clearTimeout(timer2);
  }, [first]);
  const keys = new Set(all.map(([key]) => key));
  return {
    has: (key) => keys.has(key),
    add: (key, untilMs) => setKnown(Object.fromEntries([...all, [key, untilMs]].slice(-MOST2))),
    wake: () => setKnown({}),
    next: () => Number.isFinite(first) ? clockText(first, pref("times", "relative")) : ""
  };
}
function SnoozeDialog({ fault: fault2, onSnooze, onClose }) {
  const form = useForm(null, () => ({ lasts: durationText(DEFAULT_MS) }));
  const save = async ({ lasts = "" }) => {
    const end = endOf(lasts);
    if (end === null) throw unreadable("lasts");
    onSnooze(fault2.key, end);
    return t("fault.snooze.done", { time: clockText(end, pref("times", "relative")) });
  };
  return html`<${FormDialog} title=${t("fault.snooze.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("fault.snooze")}>
    <p><strong>${fault2.text}</strong></p><p class="muted">${t("fault.snooze.text")}</p>
    <${DurationField} form=${form} name="lasts" label=${t("fault.snooze.for")} /><//>`;
}

// operations/fault_list.js
var MIN_FAULT_ROWS = 2;
var MAX_TALL_FAULTS = 3;
var FORGET_MS = 15e3;
function Faults({ findings: found, isAnswered, isKnown, problem }) {
  const [known2, setKnown] = usePref("acknowledged", []);
  const acknowledged = Array.isArray(known2) ? known2 : [];
  const keys = found.map((finding) => finding.key);
  const over = acknowledged.filter((key) => !keys.includes(key)).join();
  W2(() => {
    if (!over || !isKnown) return void 0;
    const timer2 = setTimeout(() => setKnown(acknowledged.filter((key) => keys.includes(key))), FORGET_MS);
    return () => clearTimeout(timer2);
  }, [over, isKnown]);
  const snoozed = useSnoozed();
  const [snoozing, setSnoozing] = E2(
    /** @type {Finding | null} */
    null
  );
  const shown2 = found.filter((fault2) => !acknowledged.includes(fault2.key));
  const faults = shown2.filter((fault2) => !snoozed.has(fault2.key));
  const hidden = found.length - shown2.length;
  const asleep = shown2.length - faults.length;
  const rows = j(MIN_FAULT_ROWS);
  rows.current = Math.max(rows.current, faults.length);
  return html`<section
      class=${`faults ${rows.current > MAX_TALL_FAULTS ? "many" : ""}`}
      style=${{ "--rows": String(rows.current) }} aria-label=${t("overview.wrong")} aria-live="polite"
      aria-busy=${String(!isAnswered)}>
      <${ErrorBox} problem=${problem} />
      ${faults.length === 0 ? isAnswered ? html`<p class="all-well"><span aria-hidden="true">✓</span> ${t("overview.well")}</p>` : !problem && html`<p class="all-well">${t("loading")}</p>` : html`<ul>
              ${faults.map(
    (fault2) => html`<${Fault}
                      key=${fault2.key} fault=${fault2} onSnooze=${() => setSnoozing(fault2)}
                      onAcknowledge=${() => setKnown([...acknowledged, fault2.key])} />`
  )}
            </ul>`}${hidden > 0 && html`<p class="muted">
            ${t("fault.acknowledged", { count: hidden })} <button
              type="button" class="link" onClick=${() => setKnown([])}>
              ${t("fault.show")}
            </button>
          </p>`}
      ${asleep > 0 && html`<p class="muted">
            ${t("fault.snoozed", { count: asleep, until: snoozed.next() })} <button
              type="button" class="link" onClick=${snoozed.wake}>
              ${t("fault.show")}
            </button>
          </p>`}
      ${snoozing && html`<${SnoozeDialog}
            fault=${{ key: snoozing.key, text: findingText(snoozing) }} onSnooze=${snoozed.add} onClose=${() => setSnoozing(null)} />`}
    </section>`;
}
function Fault({ fault: fault2, onAcknowledge, onSnooze }) {
  return html`<li class=${`fault ${fault2.severity}`}>
      <${Badge} kind=${fault2.severity}>${t(`fault.${fault2.severity}`)}<//>
      <span class="fault-text">${findingText(fault2)}</span>
      <${RunbookLink} code=${fault2.code} /><${CauseLink} finding=${fault2} />
      <${Button} class="small" title=${t("fault.acknowledge")} onClick=${onAcknowledge}>
        <span class="fault-act">${t("fault.acknowledge")}</span><${Icon} name="check" />
      <//>
      <${Button} opensDialog class="small" title=${t("fault.snooze")} onClick=${onSnooze}>
        <span class="fault-act">${t("fault.snooze")}</span><${Icon} name="times" />
      <//>
    </li>`;
}
function CauseLink({ finding }) {
  const link = linkOf(finding);
  return link && html`<a href=${link.href}><span class="fault-act">${link.act}</span><span aria-hidden="true"> →</span></a>`;
}

// ui/chart_keys.js
var MIN_POINTS = 5;
function byKey({ key, shiftKey }, { plot, xs, at: at2, anchor, zoom, setZoom, onRange }) {
  const last = xs.length - 1;
  if (!plot || last < 1) return false;
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
  const x3 = (n) => xs[Math.max(0, Math.min(last, n))] ?? 0;
  const step = steps[key];
  if (step !== void 0) {
    const next = Math.max(0, Math.min(last, at2 + step));
    if (shiftKey && anchor.current === null) anchor.current = at2;
    if (!shiftKey) anchor.current = null;
    const left = plot.valToPos(x3(next), "x");
    plot.setCursor({ left, top: 0 });
    const from = anchor.current === null ? left : plot.valToPos(x3(anchor.current), "x");
    plot.setSelect(
      { left: Math.min(from, left), top: 0, width: Math.abs(left - from), height: plot.over.clientHeight },
      false
    );
    return true;
  }
  switch (key) {
    case "+":
    case "=":
    case "-": {
      const [min, max] = [zoom?.min ?? x3(0), zoom?.max ?? x3(last)];
      const half = (max - min) * (key === "-" ? 2 : 0.5) / 2;
      const least = (x3(last) - x3(0)) / last * MIN_POINTS;
      if (2 * half < least) return true;
      const from = Math.max(x3(0), Math.min(x3(at2) - half, x3(last) - 2 * half));
      const to2 = Math.min(x3(last), from + 2 * half);
      setZoom(from <= x3(0) && to2 >= x3(last) ? null : { min: from, max: to2 });
      return true;
    }
    case "Escape":
      if (zoom === null && anchor.current === null) return false;
      anchor.current = null;
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      setZoom(null);
      return true;
    case "Enter": {
      if (!onRange) return false;
      const ends = [at2, anchor.current ?? at2].sort((a2, b2) => a2 - b2);
      const iso = (n) => new Date(x3(n) * 1e3).toISOString();
      const pointS = Math.max(1, x3(1) - x3(0));
      onRange(iso(ends[0] ?? at2), new Date((x3(ends[1] ?? at2) + pointS) * 1e3).toISOString());
      return true;
    }
    default:
      return false;
  }
}

// ui/chart_marks.js
var COLORS = (
  /** @type {Record<string, string>} */
  { incident: "--failed", pause: "--retrying" }
);
var MAX_LISTED2 = 6;
var LAST_ALPHA = 0.14;
var colorOf = ({ kind }) => COLORS[kind] ?? "--muted";
function drawMarks(plot, marks) {
  const { ctx, bbox, scales } = plot;
  const { min, max } = scales["x"] ?? {};
  if (typeof min !== "number" || typeof max !== "number") return;
  const styles = getComputedStyle(plot.root);
  ctx.save();
  ctx.setLineDash([4, 4]);
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const [from, to2] = [mark.atMs / 1e3, (mark.untilMs ?? mark.atMs) / 1e3];
    if (to2 < min || from > max) continue;
    const color = styles.getPropertyValue(colorOf(mark)).trim();
    const left = plot.valToPos(Math.max(from, min), "x", true);
    const right = plot.valToPos(Math.min(to2, max), "x", true);
    if (right - left > 1) {
      ctx.globalAlpha = LAST_ALPHA;
      ctx.fillStyle = color;
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.globalAlpha = 1;
    }
    if (from < min) continue;
    ctx.strokeStyle = color;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
var marksIn = (marks, fromS, toS) => fromS === void 0 || toS === void 0 ? [] : marks.filter(({ atMs, untilMs }) => (untilMs ?? atMs) / 1e3 >= fromS && atMs / 1e3 <= toS);
function MarkList({ marks, timeOf, more }) {
  if (marks.length === 0) return null;
  const hidden = marks.length - MAX_LISTED2;
  return html`<ul class="chart-marks" aria-label=${t("chart.marks")}>
      ${marks.slice(-MAX_LISTED2).reverse().map(
    (mark) => html`<li key=${`${mark.atMs} ${mark.text}`}>
                <i style=${{ background: `var(${colorOf(mark)})` }} aria-hidden="true"></i>
                <span class="num">${timeOf(mark.atMs)}</span> <b>${mark.label}</b> ${mark.link ? html`<a href=${mark.link}><${Text} value=${mark.text} max=${120} /></a>` : html`<${Text} value=${mark.text} max=${120} />`}
              </li>`
  )}${hidden > 0 && html`<li><a href=${more}>${t("text.more_items", { count: hidden })}</a></li>`}
    </ul>`;
}

// vendor/uplot.js
var Js = "uplot";
var Zs = "u-hz";
var Qs = "u-vt";
var Xs = "u-title";
var er = "u-wrap";
var tr = "u-under";
var lr = "u-over";
var nr = "u-axis";
var $t = "u-off";
var ir = "u-select";
var or = "u-cursor-x";
var sr = "u-cursor-y";
var rr = "u-cursor-pt";
var fr = "u-legend";
var ur = "u-live";
var cr = "u-inline";
var ar = "u-series";
var pr = "u-marker";
var ji = "u-label";
var hr = "u-value";
var Hl = "width";
var Nl = "height";
var qi = "bottom";
var yl = "left";
var Wn = "right";
var Gn = "#000";
var $i = Gn + "0";
var In = "mousemove";
var Ji = "mousedown";
var Yn = "mouseup";
var Zi = "mouseenter";
var Qi = "mouseleave";
var Xi = "dblclick";
var mr = "resize";
var gr = "scroll";
var eo = "change";
var tn = "dppxchange";
var Bn = "--";
var vl = typeof window < "u";
var Un = vl ? document : null;
var kl = vl ? window : null;
var dr = vl ? navigator : null;
var oe2;
var ln;
function Kn() {
  let e2 = devicePixelRatio;
  oe2 != e2 && (oe2 = e2, ln && $n(eo, ln, Kn), ln = matchMedia(`(min-resolution: ${oe2 - 1e-3}dppx) and (max-resolution: ${oe2 + 1e-3}dppx)`), Jt(eo, ln, Kn), kl.dispatchEvent(new CustomEvent(tn)));
}
function Xe(e2, i2) {
  if (i2 != null) {
    let o2 = e2.classList;
    !o2.contains(i2) && o2.add(i2);
  }
}
function jn(e2, i2) {
  let o2 = e2.classList;
  o2.contains(i2) && o2.remove(i2);
}
function de2(e2, i2, o2) {
  e2.style[i2] = o2 + "px";
}
function gt(e2, i2, o2, n) {
  let s2 = Un.createElement(e2);
  return i2 != null && Xe(s2, i2), o2?.insertBefore(s2, n), s2;
}
function ft(e2, i2) {
  return gt("div", e2, i2);
}
var to = /* @__PURE__ */ new WeakMap();
function bt(e2, i2, o2, n, s2) {
  let a2 = "translate(" + i2 + "px," + o2 + "px)", u = to.get(e2);
  a2 != u && (e2.style.transform = a2, to.set(e2, a2), i2 < 0 || o2 < 0 || i2 > n || o2 > s2 ? Xe(e2, $t) : jn(e2, $t));
}
var lo = /* @__PURE__ */ new WeakMap();
function no(e2, i2, o2) {
  let n = i2 + o2, s2 = lo.get(e2);
  n != s2 && (lo.set(e2, n), e2.style.background = i2, e2.style.borderColor = o2);
}
var io = /* @__PURE__ */ new WeakMap();
function oo(e2, i2, o2, n) {
  let s2 = i2 + "" + o2, a2 = io.get(e2);
  s2 != a2 && (io.set(e2, s2), e2.style.height = o2 + "px", e2.style.width = i2 + "px", e2.style.marginLeft = n ? -i2 / 2 + "px" : 0, e2.style.marginTop = n ? -o2 / 2 + "px" : 0);
}
var qn = { passive: true };
var wr = { ...qn, capture: true };
function Jt(e2, i2, o2, n) {
  i2.addEventListener(e2, o2, n ? wr : qn);
}
function $n(e2, i2, o2, n) {
  i2.removeEventListener(e2, o2, qn);
}
vl && Kn();
function dt(e2, i2, o2, n) {
  let s2;
  o2 = o2 || 0, n = n || i2.length - 1;
  let a2 = n <= 2147483647;
  for (; n - o2 > 1; ) s2 = a2 ? o2 + n >> 1 : tt((o2 + n) / 2), i2[s2] < e2 ? o2 = s2 : n = s2;
  return e2 - i2[o2] <= i2[n] - e2 ? o2 : n;
}
function so(e2) {
  return (o2, n, s2) => {
    let a2 = -1, u = -1;
    for (let h2 = n; h2 <= s2; h2++) if (e2(o2[h2])) {
      a2 = h2;
      break;
    }
    for (let h2 = s2; h2 >= n; h2--) if (e2(o2[h2])) {
      u = h2;
      break;
    }
    return [a2, u];
  };
}
var ro = (e2) => e2 != null;
var fo = (e2) => e2 != null && e2 > 0;
var nn = so(ro);
var Sr = so(fo);
function _r(e2, i2, o2, n = 0, s2 = false) {
  let a2 = s2 ? Sr : nn, u = s2 ? fo : ro;
  [i2, o2] = a2(e2, i2, o2);
  let h2 = e2[i2], m = e2[i2];
  if (i2 > -1) if (n == 1) h2 = e2[i2], m = e2[o2];
  else if (n == -1) h2 = e2[o2], m = e2[i2];
  else for (let g = i2; g <= o2; g++) {
    let y2 = e2[g];
    u(y2) && (y2 < h2 ? h2 = y2 : y2 > m && (m = y2));
  }
  return [h2 ?? ce2, m ?? -ce2];
}
function on(e2, i2, o2, n) {
  let s2 = ao(e2), a2 = ao(i2);
  e2 == i2 && (s2 == -1 ? (e2 *= o2, i2 /= o2) : (e2 /= o2, i2 *= o2));
  let u = o2 == 10 ? Pt : po, h2 = s2 == 1 ? tt : ut, m = a2 == 1 ? ut : tt, g = h2(u(Ae(e2))), y2 = m(u(Ae(i2))), d = xl(o2, g), w2 = xl(o2, y2);
  return o2 == 10 && (g < 0 && (d = ae2(d, -g)), y2 < 0 && (w2 = ae2(w2, -y2))), n || o2 == 2 ? (e2 = d * s2, i2 = w2 * a2) : (e2 = yo(e2, d), i2 = fn(i2, w2)), [e2, i2];
}
function Jn(e2, i2, o2, n) {
  let s2 = on(e2, i2, o2, n);
  return e2 == 0 && (s2[0] = 0), i2 == 0 && (s2[1] = 0), s2;
}
var Zn = 0.1;
var uo = { mode: 3, pad: Zn };
var Wl = { pad: 0, soft: null, mode: 0 };
var yr = { min: Wl, max: Wl };
function sn(e2, i2, o2, n) {
  return un(o2) ? co(e2, i2, o2) : (Wl.pad = o2, Wl.soft = n ? 0 : null, Wl.mode = n ? 3 : 0, co(e2, i2, yr));
}
function ne2(e2, i2) {
  return e2 ?? i2;
}
function vr(e2, i2, o2) {
  for (i2 = ne2(i2, 0), o2 = ne2(o2, e2.length - 1); i2 <= o2; ) {
    if (e2[i2] != null) return true;
    i2++;
  }
  return false;
}
function co(e2, i2, o2) {
  let n = o2.min, s2 = o2.max, a2 = ne2(n.pad, 0), u = ne2(s2.pad, 0), h2 = ne2(n.hard, -ce2), m = ne2(s2.hard, ce2), g = ne2(n.soft, ce2), y2 = ne2(s2.soft, -ce2), d = ne2(n.mode, 0), w2 = ne2(s2.mode, 0), L2 = i2 - e2, D3 = Pt(L2), O3 = Be(Ae(e2), Ae(i2)), N3 = Pt(O3), G3 = Ae(N3 - D3);
  (L2 < 1e-24 || G3 > 10) && (L2 = 0, (e2 == 0 || i2 == 0) && (L2 = 1e-24, d == 2 && g != ce2 && (a2 = 0), w2 == 2 && y2 != -ce2 && (u = 0)));
  let k2 = L2 || O3 || 1e3, H3 = Pt(k2), x3 = xl(10, tt(H3)), q3 = k2 * (L2 == 0 ? e2 == 0 ? 0.1 : 1 : a2), P3 = ae2(yo(e2 - q3, x3 / 10), 24), $2 = e2 >= g && (d == 1 || d == 3 && P3 <= g || d == 2 && P3 >= g) ? g : ce2, U2 = Be(h2, P3 < $2 && e2 >= $2 ? $2 : wt($2, P3)), Q2 = k2 * (L2 == 0 ? i2 == 0 ? 0.1 : 1 : u), B3 = ae2(fn(i2 + Q2, x3 / 10), 24), T2 = i2 <= y2 && (w2 == 1 || w2 == 3 && B3 >= y2 || w2 == 2 && B3 <= y2) ? y2 : -ce2, j2 = wt(m, B3 > T2 && i2 <= T2 ? T2 : Be(T2, B3));
  return U2 == j2 && U2 == 0 && (j2 = 100), [U2, j2];
}
var kr = new Intl.NumberFormat(vl ? dr.language : "en-US");
var Qn = (e2) => kr.format(e2);
var et = Math;
var rn = et.PI;
var Ae = et.abs;
var tt = et.floor;
var Ee = et.round;
var ut = et.ceil;
var wt = et.min;
var Be = et.max;
var xl = et.pow;
var ao = et.sign;
var Pt = et.log10;
var po = et.log2;
var xr = (e2, i2 = 1) => et.sinh(e2) * i2;
var Xn = (e2, i2 = 1) => et.asinh(e2 / i2);
var ce2 = 1 / 0;
function ho(e2) {
  return (Pt((e2 ^ e2 >> 31) - (e2 >> 31)) | 0) + 1;
}
function ei(e2, i2, o2) {
  return wt(Be(e2, i2), o2);
}
function mo(e2) {
  return typeof e2 == "function";
}
function X(e2) {
  return mo(e2) ? e2 : () => e2;
}
var Tr = () => {
};
var go2 = (e2) => e2;
var wo = (e2, i2) => i2;
var br = (e2) => null;
var So = (e2) => true;
var _o = (e2, i2) => e2 == i2;
var Mr = /\.\d*?(?=9{6,}|0{6,})/gm;
var Zt = (e2) => {
  if (ko(e2) || Ot.has(e2)) return e2;
  const i2 = `${e2}`, o2 = i2.match(Mr);
  if (o2 == null) return e2;
  let n = o2[0].length - 1;
  if (i2.indexOf("e-") != -1) {
    let [s2, a2] = i2.split("e");
    return +`${Zt(s2)}e${a2}`;
  }
  return ae2(e2, n);
};
function Qt(e2, i2) {
  return Zt(ae2(Zt(e2 / i2)) * i2);
}
function fn(e2, i2) {
  return Zt(ut(Zt(e2 / i2)) * i2);
}
function yo(e2, i2) {
  return Zt(tt(Zt(e2 / i2)) * i2);
}
function ae2(e2, i2 = 0) {
  if (ko(e2)) return e2;
  let o2 = 10 ** i2, n = e2 * o2 * (1 + Number.EPSILON);
  return Ee(n) / o2;
}
var Ot = /* @__PURE__ */ new Map();
function vo(e2) {
  return (("" + e2).split(".")[1] || "").length;
}
function Gl(e2, i2, o2, n) {
  let s2 = [], a2 = n.map(vo);
  for (let u = i2; u < o2; u++) {
    let h2 = Ae(u), m = ae2(xl(e2, u), h2);
    for (let g = 0; g < n.length; g++) {
      let y2 = e2 == 10 ? +`${n[g]}e${u}` : n[g] * m, d = (u >= 0 ? 0 : h2) + (u >= a2[g] ? 0 : a2[g]), w2 = e2 == 10 ? y2 : ae2(y2, d);
      s2.push(w2), Ot.set(w2, d);
    }
  }
  return s2;
}
var Il = {};
var ti = [];
var Tl = [null, null];
var Ht = Array.isArray;
var ko = Number.isInteger;
var Ar = (e2) => e2 === void 0;
function xo(e2) {
  return typeof e2 == "string";
}
function un(e2) {
  let i2 = false;
  if (e2 != null) {
    let o2 = e2.constructor;
    i2 = o2 == null || o2 == Object;
  }
  return i2;
}
function Er(e2) {
  return e2 != null && typeof e2 == "object";
}
var Pr = Object.getPrototypeOf(Uint8Array);
var To = "__proto__";
function bl(e2, i2 = un) {
  let o2;
  if (Ht(e2)) {
    let n = e2.find((s2) => s2 != null);
    if (Ht(n) || i2(n)) {
      o2 = Array(e2.length);
      for (let s2 = 0; s2 < e2.length; s2++) o2[s2] = bl(e2[s2], i2);
    } else o2 = e2.slice();
  } else if (e2 instanceof Pr) o2 = e2.slice();
  else if (i2(e2)) {
    o2 = {};
    for (let n in e2) n != To && (o2[n] = bl(e2[n], i2));
  } else o2 = e2;
  return o2;
}
function Te(e2) {
  let i2 = arguments;
  for (let o2 = 1; o2 < i2.length; o2++) {
    let n = i2[o2];
    for (let s2 in n) s2 != To && (un(e2[s2]) ? Te(e2[s2], bl(n[s2])) : e2[s2] = bl(n[s2]));
  }
  return e2;
}
var Dr = 0;
var Lr = 1;
var Cr = 2;
function Vr(e2, i2, o2) {
  for (let n = 0, s2, a2 = -1; n < i2.length; n++) {
    let u = i2[n];
    if (u > a2) {
      for (s2 = u - 1; s2 >= 0 && e2[s2] == null; ) e2[s2--] = null;
      for (s2 = u + 1; s2 < o2 && e2[s2] == null; ) e2[a2 = s2++] = null;
    }
  }
}
function Rr(e2, i2) {
  if (Or(e2)) {
    let u = e2[0].slice();
    for (let h2 = 1; h2 < e2.length; h2++) u.push(...e2[h2].slice(1));
    return Hr(u[0]) || (u = Fr(u)), u;
  }
  let o2 = /* @__PURE__ */ new Set();
  for (let u = 0; u < e2.length; u++) {
    let m = e2[u][0], g = m.length;
    for (let y2 = 0; y2 < g; y2++) o2.add(m[y2]);
  }
  let n = [Array.from(o2).sort((u, h2) => u - h2)], s2 = n[0].length, a2 = /* @__PURE__ */ new Map();
  for (let u = 0; u < s2; u++) a2.set(n[0][u], u);
  for (let u = 0; u < e2.length; u++) {
    let h2 = e2[u], m = h2[0];
    for (let g = 1; g < h2.length; g++) {
      let y2 = h2[g], d = Array(s2).fill(void 0), w2 = i2 ? i2[u][g] : Lr, L2 = [];
      for (let D3 = 0; D3 < y2.length; D3++) {
        let O3 = y2[D3], N3 = a2.get(m[D3]);
        O3 === null ? w2 != Dr && (d[N3] = O3, w2 == Cr && L2.push(N3)) : d[N3] = O3;
      }
      Vr(d, L2, s2), n.push(d);
    }
  }
  return n;
}
var zr = typeof queueMicrotask > "u" ? (e2) => Promise.resolve().then(e2) : queueMicrotask;
function Fr(e2) {
  let i2 = e2[0], o2 = i2.length, n = Array(o2);
  for (let a2 = 0; a2 < n.length; a2++) n[a2] = a2;
  n.sort((a2, u) => i2[a2] - i2[u]);
  let s2 = [];
  for (let a2 = 0; a2 < e2.length; a2++) {
    let u = e2[a2], h2 = Array(o2);
    for (let m = 0; m < o2; m++) h2[m] = u[n[m]];
    s2.push(h2);
  }
  return s2;
}
function Or(e2) {
  let i2 = e2[0][0], o2 = i2.length;
  for (let n = 1; n < e2.length; n++) {
    let s2 = e2[n][0];
    if (s2.length != o2) return false;
    if (s2 != i2) {
      for (let a2 = 0; a2 < o2; a2++) if (s2[a2] != i2[a2]) return false;
    }
  }
  return true;
}
function Hr(e2, i2 = 100) {
  const o2 = e2.length;
  if (o2 <= 1) return true;
  let n = 0, s2 = o2 - 1;
  for (; n <= s2 && e2[n] == null; ) n++;
  for (; s2 >= n && e2[s2] == null; ) s2--;
  if (s2 <= n) return true;
  const a2 = Be(1, tt((s2 - n + 1) / i2));
  for (let u = e2[n], h2 = n + a2; h2 <= s2; h2 += a2) {
    const m = e2[h2];
    if (m != null) {
      if (m <= u) return false;
      u = m;
    }
  }
  return true;
}
var bo = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
var Mo = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
function Ao(e2) {
  return e2.slice(0, 3);
}
var Nr = Mo.map(Ao);
var Wr = bo.map(Ao);
var Gr = { MMMM: bo, MMM: Wr, WWWW: Mo, WWW: Nr };
function Yl(e2) {
  return (e2 < 10 ? "0" : "") + e2;
}
function Ir(e2) {
  return (e2 < 10 ? "00" : e2 < 100 ? "0" : "") + e2;
}
var Yr = { YYYY: (e2) => e2.getFullYear(), YY: (e2) => (e2.getFullYear() + "").slice(2), MMMM: (e2, i2) => i2.MMMM[e2.getMonth()], MMM: (e2, i2) => i2.MMM[e2.getMonth()], MM: (e2) => Yl(e2.getMonth() + 1), M: (e2) => e2.getMonth() + 1, DD: (e2) => Yl(e2.getDate()), D: (e2) => e2.getDate(), WWWW: (e2, i2) => i2.WWWW[e2.getDay()], WWW: (e2, i2) => i2.WWW[e2.getDay()], HH: (e2) => Yl(e2.getHours()), H: (e2) => e2.getHours(), h: (e2) => {
  let i2 = e2.getHours();
  return i2 == 0 ? 12 : i2 > 12 ? i2 - 12 : i2;
}, AA: (e2) => e2.getHours() >= 12 ? "PM" : "AM", aa: (e2) => e2.getHours() >= 12 ? "pm" : "am", a: (e2) => e2.getHours() >= 12 ? "p" : "a", mm: (e2) => Yl(e2.getMinutes()), m: (e2) => e2.getMinutes(), ss: (e2) => Yl(e2.getSeconds()), s: (e2) => e2.getSeconds(), fff: (e2) => Ir(e2.getMilliseconds()) };
function li(e2, i2) {
  i2 = i2 || Gr;
  let o2 = [], n = /\{([a-z]+)\}|[^{]+/gi, s2;
  for (; s2 = n.exec(e2); ) o2.push(s2[0][0] == "{" ? Yr[s2[1]] : s2[0]);
  return (a2) => {
    let u = "";
    for (let h2 = 0; h2 < o2.length; h2++) u += typeof o2[h2] == "string" ? o2[h2] : o2[h2](a2, i2);
    return u;
  };
}
var Br = new Intl.DateTimeFormat().resolvedOptions().timeZone;
function Ur(e2, i2) {
  let o2;
  return i2 == "UTC" || i2 == "Etc/UTC" ? o2 = new Date(+e2 + e2.getTimezoneOffset() * 6e4) : i2 == Br ? o2 = e2 : (o2 = new Date(e2.toLocaleString("en-US", { timeZone: i2 })), o2.setMilliseconds(e2.getMilliseconds())), o2;
}
var Eo = (e2) => e2 % 1 == 0;
var cn = [1, 2, 2.5, 5];
var Kr = Gl(10, -32, 0, cn);
var Po = Gl(10, 0, 32, cn);
var jr = Po.filter(Eo);
var Xt = Kr.concat(Po);
var ni = `
`;
var Do = "{YYYY}";
var Lo = ni + Do;
var Co = "{M}/{D}";
var Bl = ni + Co;
var an = Bl + "/{YY}";
var Vo = "{aa}";
var qr = "{h}:{mm}";
var Ml = qr + Vo;
var Ro = ni + Ml;
var zo = ":{ss}";
var re2 = null;
function Fo(e2) {
  let i2 = e2 * 1e3, o2 = i2 * 60, n = o2 * 60, s2 = n * 24, a2 = s2 * 30, u = s2 * 365, m = (e2 == 1 ? Gl(10, 0, 3, cn).filter(Eo) : Gl(10, -3, 0, cn)).concat([i2, i2 * 5, i2 * 10, i2 * 15, i2 * 30, o2, o2 * 5, o2 * 10, o2 * 15, o2 * 30, n, n * 2, n * 3, n * 4, n * 6, n * 8, n * 12, s2, s2 * 2, s2 * 3, s2 * 4, s2 * 5, s2 * 6, s2 * 7, s2 * 8, s2 * 9, s2 * 10, s2 * 15, a2, a2 * 2, a2 * 3, a2 * 4, a2 * 6, u, u * 2, u * 5, u * 10, u * 25, u * 50, u * 100]);
  const g = [[u, Do, re2, re2, re2, re2, re2, re2, 1], [s2 * 28, "{MMM}", Lo, re2, re2, re2, re2, re2, 1], [s2, Co, Lo, re2, re2, re2, re2, re2, 1], [n, "{h}" + Vo, an, re2, Bl, re2, re2, re2, 1], [o2, Ml, an, re2, Bl, re2, re2, re2, 1], [i2, zo, an + " " + Ml, re2, Bl + " " + Ml, re2, Ro, re2, 1], [e2, zo + ".{fff}", an + " " + Ml, re2, Bl + " " + Ml, re2, Ro, re2, 1]];
  function y2(d) {
    return (w2, L2, D3, O3, N3, G3) => {
      let k2 = [], H3 = N3 >= u, x3 = N3 >= a2 && N3 < u, q3 = d(D3), P3 = ae2(q3 * e2, 3), $2 = ii(q3.getFullYear(), H3 ? 0 : q3.getMonth(), x3 || H3 ? 1 : q3.getDate()), U2 = ae2($2 * e2, 3);
      if (x3 || H3) {
        let Q2 = x3 ? N3 / a2 : 0, B3 = H3 ? N3 / u : 0, T2 = P3 == U2 ? P3 : ae2(ii($2.getFullYear() + B3, $2.getMonth() + Q2, 1) * e2, 3), j2 = new Date(Ee(T2 / e2)), C = j2.getFullYear(), I3 = j2.getMonth();
        for (let F3 = 0; T2 <= O3; F3++) {
          let ee2 = ii(C + B3 * F3, I3 + Q2 * F3, 1), z3 = ee2 - d(ae2(ee2 * e2, 3));
          T2 = ae2((+ee2 + z3) * e2, 3), T2 <= O3 && k2.push(T2);
        }
      } else {
        let Q2 = N3 >= s2 ? s2 : N3, B3 = tt(D3) - tt(P3), T2 = U2 + B3 + fn(P3 - U2, Q2);
        k2.push(T2);
        let j2 = d(T2), C = j2.getHours() + j2.getMinutes() / o2 + j2.getSeconds() / n, I3 = N3 / n, F3 = w2.axes[L2]._space, ee2 = G3 / F3;
        for (; T2 = ae2(T2 + N3, e2 == 1 ? 0 : 3), !(T2 > O3); ) if (I3 > 1) {
          let z3 = tt(ae2(C + I3, 6)) % 24, te2 = d(T2).getHours() - z3;
          te2 > 1 && (te2 = -1), T2 -= te2 * n, C = (C + I3) % 24;
          let fe2 = k2[k2.length - 1];
          ae2((T2 - fe2) / N3, 3) * ee2 >= 0.7 && k2.push(T2);
        } else k2.push(T2);
      }
      return k2;
    };
  }
  return [m, g, y2];
}
var [$r, Jr, Zr] = Fo(1);
var [Qr, Xr, ef] = Fo(1e-3);
Gl(2, -53, 53, [1]);
function Oo(e2, i2) {
  return e2.map((o2) => o2.map((n, s2) => s2 == 0 || s2 == 8 || n == null ? n : i2(s2 == 1 || o2[8] == 0 ? n : o2[1] + n)));
}
function Ho(e2, i2) {
  return (o2, n, s2, a2, u) => {
    let h2 = i2.find((D3) => u >= D3[0]) || i2[i2.length - 1], m, g, y2, d, w2, L2;
    return n.map((D3) => {
      let O3 = e2(D3), N3 = O3.getFullYear(), G3 = O3.getMonth(), k2 = O3.getDate(), H3 = O3.getHours(), x3 = O3.getMinutes(), q3 = O3.getSeconds(), P3 = N3 != m && h2[2] || G3 != g && h2[3] || k2 != y2 && h2[4] || H3 != d && h2[5] || x3 != w2 && h2[6] || q3 != L2 && h2[7] || h2[1];
      return m = N3, g = G3, y2 = k2, d = H3, w2 = x3, L2 = q3, P3(O3);
    });
  };
}
function tf(e2, i2) {
  let o2 = li(i2);
  return (n, s2, a2, u, h2) => s2.map((m) => o2(e2(m)));
}
function ii(e2, i2, o2) {
  return new Date(e2, i2, o2);
}
function No(e2, i2) {
  return i2(e2);
}
var lf = "{YYYY}-{MM}-{DD} {h}:{mm}{aa}";
function Wo(e2, i2) {
  return (o2, n, s2, a2) => a2 == null ? Bn : i2(e2(n));
}
function nf(e2, i2) {
  let o2 = e2.series[i2];
  return o2.width ? o2.stroke(e2, i2) : o2.points.width ? o2.points.stroke(e2, i2) : null;
}
function of(e2, i2) {
  return e2.series[i2].fill(e2, i2);
}
var sf = { show: true, live: true, isolate: false, mount: Tr, markers: { show: true, width: 2, stroke: nf, fill: of, dash: "solid" }, idx: null, idxs: null, values: [] };
function rf(e2, i2) {
  let o2 = e2.cursor.points, n = ft(), s2 = o2.size(e2, i2);
  de2(n, Hl, s2), de2(n, Nl, s2);
  let a2 = s2 / -2;
  de2(n, "marginLeft", a2), de2(n, "marginTop", a2);
  let u = o2.width(e2, i2, s2);
  return u && de2(n, "borderWidth", u), n;
}
function ff(e2, i2) {
  let o2 = e2.series[i2].points;
  return o2._fill || o2._stroke;
}
function uf(e2, i2) {
  let o2 = e2.series[i2].points;
  return o2._stroke || o2._fill;
}
function cf(e2, i2) {
  return e2.series[i2].points.size;
}
var oi = [0, 0];
function af(e2, i2, o2) {
  return oi[0] = i2, oi[1] = o2, oi;
}
function pn(e2, i2, o2, n = true) {
  return (s2) => {
    s2.button == 0 && (!n || s2.target == i2) && o2(s2);
  };
}
function si(e2, i2, o2, n = true) {
  return (s2) => {
    (!n || s2.target == i2) && o2(s2);
  };
}
var pf = { show: true, x: true, y: true, lock: false, move: af, points: { one: false, show: rf, size: cf, width: 0, stroke: uf, fill: ff }, bind: { mousedown: pn, mouseup: pn, click: pn, dblclick: pn, mousemove: si, mouseleave: si, mouseenter: si }, drag: { setScale: true, x: true, y: false, dist: 0, uni: null, click: (e2, i2) => {
  i2.stopPropagation(), i2.stopImmediatePropagation();
}, _x: false, _y: false }, focus: { dist: (e2, i2, o2, n, s2) => n - s2, prox: -1, bias: 0 }, hover: { skip: [void 0], prox: null, bias: 0 }, left: -10, top: -10, idx: null, dataIdx: null, idxs: null, event: null };
var Go = { show: true, stroke: "rgba(0,0,0,0.07)", width: 2 };
var ri = Te({}, Go, { filter: wo });
var Io = Te({}, ri, { size: 10 });
var Yo = Te({}, Go, { show: false });
var fi = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif, "Apple Color Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Noto Color Emoji"';
var Bo = "bold " + fi;
var Uo = 1.5;
var Ko = { show: true, scale: "x", stroke: Gn, space: 50, gap: 5, alignTo: 1, size: 50, labelGap: 0, labelSize: 30, labelFont: Bo, side: 2, grid: ri, ticks: Io, border: Yo, font: fi, lineGap: Uo, rotate: 0 };
var hf = "Value";
var mf = "Time";
var jo = { show: true, scale: "x", auto: false, sorted: 1, min: ce2, max: -ce2, idxs: [] };
function gf(e2, i2, o2, n, s2) {
  return i2.map((a2) => a2 == null ? "" : Qn(a2));
}
function df(e2, i2, o2, n, s2, a2, u) {
  let h2 = [], m = Ot.get(s2) || 0;
  o2 = u ? o2 : ae2(fn(o2, s2), m);
  for (let g = o2; g <= n; g = ae2(g + s2, m)) h2.push(Object.is(g, -0) ? 0 : g);
  return h2;
}
function ui(e2, i2, o2, n, s2, a2, u) {
  const h2 = [], m = e2.scales[e2.axes[i2].scale].log, g = m == 10 ? Pt : po, y2 = tt(g(o2));
  s2 = xl(m, y2), m == 10 && (s2 = Xt[dt(s2, Xt)]);
  let d = o2, w2 = s2 * m;
  m == 10 && (w2 = Xt[dt(w2, Xt)]);
  do
    h2.push(d), d = d + s2, m == 10 && !Ot.has(d) && (d = ae2(d, Ot.get(s2))), d >= w2 && (s2 = d, w2 = s2 * m, m == 10 && (w2 = Xt[dt(w2, Xt)]));
  while (d <= n);
  return h2;
}
function wf(e2, i2, o2, n, s2, a2, u) {
  let m = e2.scales[e2.axes[i2].scale].asinh, g = n > m ? ui(e2, i2, Be(m, o2), n, s2) : [m], y2 = n >= 0 && o2 <= 0 ? [0] : [];
  return (o2 < -m ? ui(e2, i2, Be(m, -n), -o2, s2) : [m]).reverse().map((w2) => -w2).concat(y2, g);
}
var qo = /./;
var Sf = /[12357]/;
var _f = /[125]/;
var $o = /1/;
var ci = (e2, i2, o2, n) => e2.map((s2, a2) => i2 == 4 && s2 == 0 || a2 % n == 0 && o2.test(s2.toExponential()[s2 < 0 ? 1 : 0]) ? s2 : null);
function yf(e2, i2, o2, n, s2) {
  let a2 = e2.axes[o2], u = a2.scale, h2 = e2.scales[u], m = e2.valToPos, g = a2._space, y2 = m(10, u), d = m(9, u) - y2 >= g ? qo : m(7, u) - y2 >= g ? Sf : m(5, u) - y2 >= g ? _f : $o;
  if (d == $o) {
    let w2 = Ae(m(1, u) - y2);
    if (w2 < g) return ci(i2.slice().reverse(), h2.distr, d, ut(g / w2)).reverse();
  }
  return ci(i2, h2.distr, d, 1);
}
function vf(e2, i2, o2, n, s2) {
  let a2 = e2.axes[o2], u = a2.scale, h2 = a2._space, m = e2.valToPos, g = Ae(m(1, u) - m(2, u));
  return g < h2 ? ci(i2.slice().reverse(), 3, qo, ut(h2 / g)).reverse() : i2;
}
function kf(e2, i2, o2, n) {
  return n == null ? Bn : i2 == null ? "" : Qn(i2);
}
var Jo = { show: true, scale: "y", stroke: Gn, space: 30, gap: 5, alignTo: 1, size: 50, labelGap: 0, labelSize: 30, labelFont: Bo, side: 3, grid: ri, ticks: Io, border: Yo, font: fi, lineGap: Uo, rotate: 0 };
function xf(e2, i2) {
  let o2 = 3 + (e2 || 1) * 2;
  return ae2(o2 * i2, 3);
}
function Tf(e2, i2) {
  let { scale: o2, idxs: n } = e2.series[0], s2 = e2._data[0], a2 = e2.valToPos(s2[n[0]], o2, true), u = e2.valToPos(s2[n[1]], o2, true), h2 = Ae(u - a2), m = e2.series[i2], g = h2 / (m.points.space * oe2);
  return n[1] - n[0] <= g;
}
var Zo = { scale: null, auto: true, sorted: 0, min: ce2, max: -ce2 };
var Qo = (e2, i2, o2, n, s2) => s2;
var Xo = { show: true, auto: true, sorted: 0, gaps: Qo, alpha: 1, facets: [Te({}, Zo, { scale: "x" }), Te({}, Zo, { scale: "y" })] };
var es = { scale: "y", auto: true, sorted: 0, show: true, spanGaps: false, gaps: Qo, alpha: 1, points: { show: Tf, filter: null }, values: null, min: ce2, max: -ce2, idxs: [], path: null, clip: null };
function bf(e2, i2, o2, n, s2) {
  return o2 / 10;
}
var ts = { time: true, auto: true, distr: 1, log: 10, asinh: 1, min: null, max: null, dir: 1, ori: 0 };
var Mf = Te({}, ts, { time: false, ori: 1 });
var ls = {};
function ns(e2, i2) {
  let o2 = ls[e2];
  return o2 || (o2 = { key: e2, plots: [], sub(n) {
    o2.plots.push(n);
  }, unsub(n) {
    o2.plots = o2.plots.filter((s2) => s2 != n);
  }, pub(n, s2, a2, u, h2, m, g) {
    for (let y2 = 0; y2 < o2.plots.length; y2++) o2.plots[y2] != s2 && o2.plots[y2].pub(n, s2, a2, u, h2, m, g);
  } }, e2 != null && (ls[e2] = o2)), o2;
}
var Al = 1;
var ai = 2;
function el(e2, i2, o2) {
  const n = e2.mode, s2 = e2.series[i2], a2 = n == 2 ? e2._data[i2] : e2._data, u = e2.scales, h2 = e2.bbox;
  let m = a2[0], g = n == 2 ? a2[1] : a2[i2], y2 = n == 2 ? u[s2.facets[0].scale] : u[e2.series[0].scale], d = n == 2 ? u[s2.facets[1].scale] : u[s2.scale], w2 = h2.left, L2 = h2.top, D3 = h2.width, O3 = h2.height, N3 = e2.valToPosH, G3 = e2.valToPosV;
  return y2.ori == 0 ? o2(s2, m, g, y2, d, N3, G3, w2, L2, D3, O3, mn, El, dn, ss, fs) : o2(s2, m, g, y2, d, G3, N3, L2, w2, O3, D3, gn, Pl, mi, rs, us);
}
function pi(e2, i2) {
  let o2 = 0, n = 0, s2 = ne2(e2.bands, ti);
  for (let a2 = 0; a2 < s2.length; a2++) {
    let u = s2[a2];
    u.series[0] == i2 ? o2 = u.dir : u.series[1] == i2 && (u.dir == 1 ? n |= 1 : n |= 2);
  }
  return [o2, n == 1 ? -1 : n == 2 ? 1 : n == 3 ? 2 : 0];
}
function Af(e2, i2, o2, n, s2) {
  let a2 = e2.mode, u = e2.series[i2], h2 = a2 == 2 ? u.facets[1].scale : u.scale, m = e2.scales[h2];
  return s2 == -1 ? m.min : s2 == 1 ? m.max : m.distr == 3 ? m.dir == 1 ? m.min : m.max : 0;
}
function Dt(e2, i2, o2, n, s2, a2) {
  return el(e2, i2, (u, h2, m, g, y2, d, w2, L2, D3, O3, N3) => {
    let G3 = u.pxRound;
    const k2 = g.dir * (g.ori == 0 ? 1 : -1), H3 = g.ori == 0 ? El : Pl;
    let x3, q3;
    k2 == 1 ? (x3 = o2, q3 = n) : (x3 = n, q3 = o2);
    let P3 = G3(d(h2[x3], g, O3, L2)), $2 = G3(w2(m[x3], y2, N3, D3)), U2 = G3(d(h2[q3], g, O3, L2)), Q2 = G3(w2(a2 == 1 ? y2.max : y2.min, y2, N3, D3)), B3 = new Path2D(s2);
    return H3(B3, U2, Q2), H3(B3, P3, Q2), H3(B3, P3, $2), B3;
  });
}
function hn(e2, i2, o2, n, s2, a2) {
  let u = null;
  if (e2.length > 0) {
    u = new Path2D();
    const h2 = i2 == 0 ? dn : mi;
    let m = o2;
    for (let d = 0; d < e2.length; d++) {
      let w2 = e2[d];
      if (w2[1] > w2[0]) {
        let L2 = w2[0] - m;
        L2 > 0 && h2(u, m, n, L2, n + a2), m = w2[1];
      }
    }
    let g = o2 + s2 - m, y2 = 10;
    g > 0 && h2(u, m, n - y2 / 2, g, n + a2 + y2);
  }
  return u;
}
function Ef(e2, i2, o2) {
  let n = e2[e2.length - 1];
  n && n[0] == i2 ? n[1] = o2 : e2.push([i2, o2]);
}
function hi(e2, i2, o2, n, s2, a2, u) {
  let h2 = [], m = e2.length;
  for (let g = s2 == 1 ? o2 : n; g >= o2 && g <= n; g += s2) if (i2[g] === null) {
    let d = g, w2 = g;
    if (s2 == 1) for (; ++g <= n && i2[g] === null; ) w2 = g;
    else for (; --g >= o2 && i2[g] === null; ) w2 = g;
    let L2 = a2(e2[d]), D3 = w2 == d ? L2 : a2(e2[w2]), O3 = d - s2;
    L2 = u <= 0 && O3 >= 0 && O3 < m ? a2(e2[O3]) : L2;
    let G3 = w2 + s2;
    D3 = u >= 0 && G3 >= 0 && G3 < m ? a2(e2[G3]) : D3, D3 >= L2 && h2.push([L2, D3]);
  }
  return h2;
}
function is(e2) {
  return e2 == 0 ? go2 : e2 == 1 ? Ee : (i2) => Qt(i2, e2);
}
function os(e2) {
  let i2 = e2 == 0 ? mn : gn, o2 = e2 == 0 ? (s2, a2, u, h2, m, g) => {
    s2.arcTo(a2, u, h2, m, g);
  } : (s2, a2, u, h2, m, g) => {
    s2.arcTo(u, a2, m, h2, g);
  }, n = e2 == 0 ? (s2, a2, u, h2, m) => {
    s2.rect(a2, u, h2, m);
  } : (s2, a2, u, h2, m) => {
    s2.rect(u, a2, m, h2);
  };
  return (s2, a2, u, h2, m, g = 0, y2 = 0) => {
    g == 0 && y2 == 0 ? n(s2, a2, u, h2, m) : (g = wt(g, h2 / 2, m / 2), y2 = wt(y2, h2 / 2, m / 2), i2(s2, a2 + g, u), o2(s2, a2 + h2, u, a2 + h2, u + m, g), o2(s2, a2 + h2, u + m, a2, u + m, y2), o2(s2, a2, u + m, a2, u, y2), o2(s2, a2, u, a2 + h2, u, g), s2.closePath());
  };
}
var mn = (e2, i2, o2) => {
  e2.moveTo(i2, o2);
};
var gn = (e2, i2, o2) => {
  e2.moveTo(o2, i2);
};
var El = (e2, i2, o2) => {
  e2.lineTo(i2, o2);
};
var Pl = (e2, i2, o2) => {
  e2.lineTo(o2, i2);
};
var dn = os(0);
var mi = os(1);
var ss = (e2, i2, o2, n, s2, a2) => {
  e2.arc(i2, o2, n, s2, a2);
};
var rs = (e2, i2, o2, n, s2, a2) => {
  e2.arc(o2, i2, n, s2, a2);
};
var fs = (e2, i2, o2, n, s2, a2, u) => {
  e2.bezierCurveTo(i2, o2, n, s2, a2, u);
};
var us = (e2, i2, o2, n, s2, a2, u) => {
  e2.bezierCurveTo(o2, i2, s2, n, u, a2);
};
function cs(e2) {
  return (i2, o2, n, s2, a2) => el(i2, o2, (u, h2, m, g, y2, d, w2, L2, D3, O3, N3) => {
    let { pxRound: G3, points: k2 } = u, H3, x3;
    g.ori == 0 ? (H3 = mn, x3 = ss) : (H3 = gn, x3 = rs);
    const q3 = ae2(k2.width * oe2, 3);
    let P3 = (k2.size - k2.width) / 2 * oe2, $2 = ae2(P3 * 2, 3), U2 = new Path2D(), Q2 = new Path2D(), { left: B3, top: T2, width: j2, height: C } = i2.bbox;
    dn(Q2, B3 - $2, T2 - $2, j2 + $2 * 2, C + $2 * 2);
    const I3 = (F3) => {
      if (m[F3] != null) {
        let ee2 = G3(d(h2[F3], g, O3, L2)), z3 = G3(w2(m[F3], y2, N3, D3));
        H3(U2, ee2 + P3, z3), x3(U2, ee2, z3, P3, 0, rn * 2);
      }
    };
    if (a2) a2.forEach(I3);
    else for (let F3 = n; F3 <= s2; F3++) I3(F3);
    return { stroke: q3 > 0 ? U2 : null, fill: U2, clip: Q2, flags: Al | ai };
  });
}
function as(e2) {
  return (i2, o2, n, s2, a2, u) => {
    n != s2 && (a2 != n && u != n && e2(i2, o2, n), a2 != s2 && u != s2 && e2(i2, o2, s2), e2(i2, o2, u));
  };
}
var Pf = as(El);
var Df = as(Pl);
function ps(e2) {
  const i2 = ne2(e2?.alignGaps, 0);
  return (o2, n, s2, a2) => el(o2, n, (u, h2, m, g, y2, d, w2, L2, D3, O3, N3) => {
    [s2, a2] = nn(m, s2, a2);
    let G3 = u.pxRound, k2 = (C) => G3(d(C, g, O3, L2)), H3 = (C) => G3(w2(C, y2, N3, D3)), x3, q3;
    g.ori == 0 ? (x3 = El, q3 = Pf) : (x3 = Pl, q3 = Df);
    const P3 = g.dir * (g.ori == 0 ? 1 : -1), $2 = { stroke: new Path2D(), fill: null, clip: null, band: null, gaps: null, flags: Al }, U2 = $2.stroke;
    let Q2 = false;
    if (a2 - s2 >= O3 * 4) {
      let C = (V3) => o2.posToVal(V3, g.key, true), I3 = null, F3 = null, ee2, z3, Ue, we2 = k2(h2[P3 == 1 ? s2 : a2]), te2 = k2(h2[s2]), fe2 = k2(h2[a2]), J3 = C(P3 == 1 ? te2 + 1 : fe2 - 1);
      for (let V3 = P3 == 1 ? s2 : a2; V3 >= s2 && V3 <= a2; V3 += P3) {
        let be2 = h2[V3], Se = (P3 == 1 ? be2 < J3 : be2 > J3) ? we2 : k2(be2), se = m[V3];
        Se == we2 ? se != null ? (z3 = se, I3 == null ? (x3(U2, Se, H3(z3)), ee2 = I3 = F3 = z3) : z3 < I3 ? I3 = z3 : z3 > F3 && (F3 = z3)) : se === null && (Q2 = true) : (I3 != null && q3(U2, we2, H3(I3), H3(F3), H3(ee2), H3(z3)), se != null ? (z3 = se, x3(U2, Se, H3(z3)), I3 = F3 = ee2 = z3) : (I3 = F3 = null, se === null && (Q2 = true)), we2 = Se, J3 = C(we2 + P3));
      }
      I3 != null && I3 != F3 && Ue != we2 && q3(U2, we2, H3(I3), H3(F3), H3(ee2), H3(z3));
    } else for (let C = P3 == 1 ? s2 : a2; C >= s2 && C <= a2; C += P3) {
      let I3 = m[C];
      I3 === null ? Q2 = true : I3 != null && x3(U2, k2(h2[C]), H3(I3));
    }
    let [T2, j2] = pi(o2, n);
    if (u.fill != null || T2 != 0) {
      let C = $2.fill = new Path2D(U2), I3 = u.fillTo(o2, n, u.min, u.max, T2), F3 = H3(I3), ee2 = k2(h2[s2]), z3 = k2(h2[a2]);
      P3 == -1 && ([z3, ee2] = [ee2, z3]), x3(C, z3, F3), x3(C, ee2, F3);
    }
    if (!u.spanGaps) {
      let C = [];
      Q2 && C.push(...hi(h2, m, s2, a2, P3, k2, i2)), $2.gaps = C = u.gaps(o2, n, s2, a2, C), $2.clip = hn(C, g.ori, L2, D3, O3, N3);
    }
    return j2 != 0 && ($2.band = j2 == 2 ? [Dt(o2, n, s2, a2, U2, -1), Dt(o2, n, s2, a2, U2, 1)] : Dt(o2, n, s2, a2, U2, j2)), $2;
  });
}
function Lf(e2) {
  const i2 = ne2(e2.align, 1), o2 = ne2(e2.ascDesc, false), n = ne2(e2.alignGaps, 0), s2 = ne2(e2.extend, false);
  return (a2, u, h2, m) => el(a2, u, (g, y2, d, w2, L2, D3, O3, N3, G3, k2, H3) => {
    [h2, m] = nn(d, h2, m);
    let x3 = g.pxRound, { left: q3, width: P3 } = a2.bbox, $2 = (te2) => x3(D3(te2, w2, k2, N3)), U2 = (te2) => x3(O3(te2, L2, H3, G3)), Q2 = w2.ori == 0 ? El : Pl;
    const B3 = { stroke: new Path2D(), fill: null, clip: null, band: null, gaps: null, flags: Al }, T2 = B3.stroke, j2 = w2.dir * (w2.ori == 0 ? 1 : -1);
    let C = U2(d[j2 == 1 ? h2 : m]), I3 = $2(y2[j2 == 1 ? h2 : m]), F3 = I3, ee2 = I3;
    s2 && i2 == -1 && (ee2 = q3, Q2(T2, ee2, C)), Q2(T2, I3, C);
    for (let te2 = j2 == 1 ? h2 : m; te2 >= h2 && te2 <= m; te2 += j2) {
      let fe2 = d[te2];
      if (fe2 == null) continue;
      let J3 = $2(y2[te2]), V3 = U2(fe2);
      i2 == 1 ? Q2(T2, J3, C) : Q2(T2, F3, V3), Q2(T2, J3, V3), C = V3, F3 = J3;
    }
    let z3 = F3;
    s2 && i2 == 1 && (z3 = q3 + P3, Q2(T2, z3, C));
    let [Ue, we2] = pi(a2, u);
    if (g.fill != null || Ue != 0) {
      let te2 = B3.fill = new Path2D(T2), fe2 = g.fillTo(a2, u, g.min, g.max, Ue), J3 = U2(fe2);
      Q2(te2, z3, J3), Q2(te2, ee2, J3);
    }
    if (!g.spanGaps) {
      let te2 = [];
      te2.push(...hi(y2, d, h2, m, j2, $2, n));
      let fe2 = g.width * oe2 / 2, J3 = o2 || i2 == 1 ? fe2 : -fe2, V3 = o2 || i2 == -1 ? -fe2 : fe2;
      te2.forEach((be2) => {
        be2[0] += J3, be2[1] += V3;
      }), B3.gaps = te2 = g.gaps(a2, u, h2, m, te2), B3.clip = hn(te2, w2.ori, N3, G3, k2, H3);
    }
    return we2 != 0 && (B3.band = we2 == 2 ? [Dt(a2, u, h2, m, T2, -1), Dt(a2, u, h2, m, T2, 1)] : Dt(a2, u, h2, m, T2, we2)), B3;
  });
}
function hs(e2, i2, o2, n, s2, a2, u = ce2) {
  if (e2.length > 1) {
    let h2 = null;
    for (let m = 0, g = 1 / 0; m < e2.length; m++) if (i2[m] !== void 0) {
      if (h2 != null) {
        let y2 = Ae(e2[m] - e2[h2]);
        y2 < g && (g = y2, u = Ae(o2(e2[m], n, s2, a2) - o2(e2[h2], n, s2, a2)));
      }
      h2 = m;
    }
  }
  return u;
}
function Cf(e2) {
  e2 = e2 || Il;
  const i2 = ne2(e2.size, [0.6, ce2, 1]), o2 = e2.align || 0, n = e2.gap || 0;
  let s2 = e2.radius;
  s2 = s2 == null ? [0, 0] : typeof s2 == "number" ? [s2, 0] : s2;
  const a2 = X(s2), u = 1 - i2[0], h2 = ne2(i2[1], ce2), m = ne2(i2[2], 1), g = ne2(e2.disp, Il), y2 = ne2(e2.each, (L2) => {
  }), { fill: d, stroke: w2 } = g;
  return (L2, D3, O3, N3) => el(L2, D3, (G3, k2, H3, x3, q3, P3, $2, U2, Q2, B3, T2) => {
    let j2 = G3.pxRound, C = o2, I3 = n * oe2, F3 = h2 * oe2, ee2 = m * oe2, z3, Ue;
    x3.ori == 0 ? [z3, Ue] = a2(L2, D3) : [Ue, z3] = a2(L2, D3);
    const we2 = x3.dir * (x3.ori == 0 ? 1 : -1);
    let te2 = x3.ori == 0 ? dn : mi, fe2 = x3.ori == 0 ? y2 : (A3, pe2, Me, il, Gt, _t, It) => {
      y2(A3, pe2, Me, Gt, il, It, _t);
    }, J3 = ne2(L2.bands, ti).find((A3) => A3.series[0] == D3), V3 = J3 != null ? J3.dir : 0, be2 = G3.fillTo(L2, D3, G3.min, G3.max, V3), Ne = j2($2(be2, q3, T2, Q2)), Se, se, ct, qe = B3, ye2 = j2(G3.width * oe2), St = false, Mt = null, lt = null, Lt = null, tl = null;
    d != null && (ye2 == 0 || w2 != null) && (St = true, Mt = d.values(L2, D3, O3, N3), lt = /* @__PURE__ */ new Map(), new Set(Mt).forEach((A3) => {
      A3 != null && lt.set(A3, new Path2D());
    }), ye2 > 0 && (Lt = w2.values(L2, D3, O3, N3), tl = /* @__PURE__ */ new Map(), new Set(Lt).forEach((A3) => {
      A3 != null && tl.set(A3, new Path2D());
    })));
    let { x0: ll, size: Dl } = g;
    if (ll != null && Dl != null) {
      C = 1, k2 = ll.values(L2, D3, O3, N3), ll.unit == 2 && (k2 = k2.map((Me) => L2.posToVal(U2 + Me * B3, x3.key, true)));
      let A3 = Dl.values(L2, D3, O3, N3);
      Dl.unit == 2 ? se = A3[0] * B3 : se = P3(A3[0], x3, B3, U2) - P3(0, x3, B3, U2), qe = hs(k2, H3, P3, x3, B3, U2, qe), ct = qe - se + I3;
    } else qe = hs(k2, H3, P3, x3, B3, U2, qe), ct = qe * u + I3, se = qe - ct;
    ct < 1 && (ct = 0), ye2 >= se / 2 && (ye2 = 0), ct < 5 && (j2 = go2);
    let Ul = ct > 0, Nt = qe - ct - (Ul ? ye2 : 0);
    se = j2(ei(Nt, ee2, F3)), Se = (C == 0 ? se / 2 : C == we2 ? 0 : se) - C * we2 * ((C == 0 ? I3 / 2 : 0) + (Ul ? ye2 / 2 : 0));
    const We = { stroke: null, fill: null, clip: null, band: null, gaps: null, flags: 0 }, nl = St ? null : new Path2D();
    let At = null;
    if (J3 != null) At = L2.data[J3.series[1]];
    else {
      let { y0: A3, y1: pe2 } = g;
      A3 != null && pe2 != null && (H3 = pe2.values(L2, D3, O3, N3), At = A3.values(L2, D3, O3, N3));
    }
    let Wt = z3 * se, K3 = Ue * se;
    for (let A3 = we2 == 1 ? O3 : N3; A3 >= O3 && A3 <= N3; A3 += we2) {
      let pe2 = H3[A3];
      if (pe2 == null) continue;
      if (At != null) {
        let Ke = At[A3] ?? 0;
        if (pe2 - Ke == 0) continue;
        Ne = $2(Ke, q3, T2, Q2);
      }
      let Me = x3.distr != 2 || g != null ? k2[A3] : A3, il = P3(Me, x3, B3, U2), Gt = $2(ne2(pe2, be2), q3, T2, Q2), _t = j2(il - Se), It = j2(Be(Gt, Ne)), $e = j2(wt(Gt, Ne)), nt = It - $e;
      if (pe2 != null) {
        let Ke = pe2 < 0 ? K3 : Wt, at2 = pe2 < 0 ? Wt : K3;
        St ? (ye2 > 0 && Lt[A3] != null && te2(tl.get(Lt[A3]), _t, $e + tt(ye2 / 2), se, Be(0, nt - ye2), Ke, at2), Mt[A3] != null && te2(lt.get(Mt[A3]), _t, $e + tt(ye2 / 2), se, Be(0, nt - ye2), Ke, at2)) : te2(nl, _t, $e + tt(ye2 / 2), se, Be(0, nt - ye2), Ke, at2), fe2(L2, D3, A3, _t - ye2 / 2, $e, se + ye2, nt);
      }
    }
    return ye2 > 0 ? We.stroke = St ? tl : nl : St || (We._fill = G3.width == 0 ? G3._fill : G3._stroke ?? G3._fill, We.width = 0), We.fill = St ? lt : nl, We;
  });
}
function Vf(e2, i2) {
  const o2 = ne2(i2?.alignGaps, 0);
  return (n, s2, a2, u) => el(n, s2, (h2, m, g, y2, d, w2, L2, D3, O3, N3, G3) => {
    [a2, u] = nn(g, a2, u);
    let k2 = h2.pxRound, H3 = (z3) => k2(w2(z3, y2, N3, D3)), x3 = (z3) => k2(L2(z3, d, G3, O3)), q3, P3, $2;
    y2.ori == 0 ? (q3 = mn, $2 = El, P3 = fs) : (q3 = gn, $2 = Pl, P3 = us);
    const U2 = y2.dir * (y2.ori == 0 ? 1 : -1);
    let Q2 = H3(m[U2 == 1 ? a2 : u]), B3 = Q2, T2 = [], j2 = [];
    for (let z3 = U2 == 1 ? a2 : u; z3 >= a2 && z3 <= u; z3 += U2) if (g[z3] != null) {
      let we2 = m[z3], te2 = H3(we2);
      T2.push(B3 = te2), j2.push(x3(g[z3]));
    }
    const C = { stroke: e2(T2, j2, q3, $2, P3, k2), fill: null, clip: null, band: null, gaps: null, flags: Al }, I3 = C.stroke;
    let [F3, ee2] = pi(n, s2);
    if (h2.fill != null || F3 != 0) {
      let z3 = C.fill = new Path2D(I3), Ue = h2.fillTo(n, s2, h2.min, h2.max, F3), we2 = x3(Ue);
      $2(z3, B3, we2), $2(z3, Q2, we2);
    }
    if (!h2.spanGaps) {
      let z3 = [];
      z3.push(...hi(m, g, a2, u, U2, H3, o2)), C.gaps = z3 = h2.gaps(n, s2, a2, u, z3), C.clip = hn(z3, y2.ori, D3, O3, N3, G3);
    }
    return ee2 != 0 && (C.band = ee2 == 2 ? [Dt(n, s2, a2, u, I3, -1), Dt(n, s2, a2, u, I3, 1)] : Dt(n, s2, a2, u, I3, ee2)), C;
  });
}
function Rf(e2) {
  return Vf(zf, e2);
}
function zf(e2, i2, o2, n, s2, a2) {
  const u = e2.length;
  if (u < 2) return null;
  const h2 = new Path2D();
  if (o2(h2, e2[0], i2[0]), u == 2) n(h2, e2[1], i2[1]);
  else {
    let m = Array(u), g = Array(u - 1), y2 = Array(u - 1), d = Array(u - 1);
    for (let w2 = 0; w2 < u - 1; w2++) y2[w2] = i2[w2 + 1] - i2[w2], d[w2] = e2[w2 + 1] - e2[w2], g[w2] = y2[w2] / d[w2];
    m[0] = g[0];
    for (let w2 = 1; w2 < u - 1; w2++) g[w2] === 0 || g[w2 - 1] === 0 || g[w2 - 1] > 0 != g[w2] > 0 ? m[w2] = 0 : (m[w2] = 3 * (d[w2 - 1] + d[w2]) / ((2 * d[w2] + d[w2 - 1]) / g[w2 - 1] + (d[w2] + 2 * d[w2 - 1]) / g[w2]), isFinite(m[w2]) || (m[w2] = 0));
    m[u - 1] = g[u - 2];
    for (let w2 = 0; w2 < u - 1; w2++) s2(h2, e2[w2] + d[w2] / 3, i2[w2] + m[w2] * d[w2] / 3, e2[w2 + 1] - d[w2] / 3, i2[w2 + 1] - m[w2 + 1] * d[w2] / 3, e2[w2 + 1], i2[w2 + 1]);
  }
  return h2;
}
var gi = /* @__PURE__ */ new Set();
function ms() {
  for (let e2 of gi) e2.syncRect(true);
}
vl && (Jt(mr, kl, ms), Jt(gr, kl, ms, true), Jt(tn, kl, () => {
  He.pxRatio = oe2;
}));
var Ff = ps();
var Of = cs();
function gs(e2, i2, o2, n) {
  return (n ? [e2[0], e2[1]].concat(e2.slice(2)) : [e2[0]].concat(e2.slice(1))).map((a2, u) => di(a2, u, i2, o2));
}
function Hf(e2, i2) {
  return e2.map((o2, n) => n == 0 ? {} : Te({}, i2, o2));
}
function di(e2, i2, o2, n) {
  return Te({}, i2 == 0 ? o2 : n, e2);
}
function ds(e2, i2, o2) {
  return i2 == null ? Tl : [i2, o2];
}
var Nf = ds;
function Wf(e2, i2, o2) {
  return i2 == null ? Tl : sn(i2, o2, Zn, true);
}
function ws(e2, i2, o2, n) {
  return i2 == null ? Tl : on(i2, o2, e2.scales[n].log, false);
}
var Gf = ws;
function Ss(e2, i2, o2, n) {
  return i2 == null ? Tl : Jn(i2, o2, e2.scales[n].log, false);
}
var If = Ss;
function Yf(e2, i2, o2, n, s2) {
  let a2 = Be(ho(e2), ho(i2)), u = i2 - e2, h2 = dt(s2 / n * u, o2);
  do {
    let m = o2[h2], g = n * m / u;
    if (g >= s2 && a2 + (m < 5 ? Ot.get(m) : 0) <= 17) return [m, g];
  } while (++h2 < o2.length);
  return [0, 0];
}
function _s(e2) {
  let i2, o2;
  return e2 = e2.replace(/(\d+)px/, (n, s2) => (i2 = Ee((o2 = +s2) * oe2)) + "px"), [e2, i2, o2];
}
function Bf(e2) {
  e2.show && [e2.font, e2.labelFont].forEach((i2) => {
    let o2 = ae2(i2[2] * oe2, 1);
    i2[0] = i2[0].replace(/[0-9.]+px/, o2 + "px"), i2[1] = o2;
  });
}
function He(e2, i2, o2) {
  const n = { mode: ne2(e2.mode, 1) }, s2 = n.mode;
  function a2(t2, l, r, f) {
    let c = l.valToPct(t2);
    return f + r * (l.dir == -1 ? 1 - c : c);
  }
  function u(t2, l, r, f) {
    let c = l.valToPct(t2);
    return f + r * (l.dir == -1 ? c : 1 - c);
  }
  function h2(t2, l, r, f) {
    return l.ori == 0 ? a2(t2, l, r, f) : u(t2, l, r, f);
  }
  n.valToPosH = a2, n.valToPosV = u;
  let m = false;
  n.status = 0;
  const g = n.root = ft(Js);
  if (e2.id != null && (g.id = e2.id), Xe(g, e2.class), e2.title) {
    let t2 = ft(Xs, g);
    t2.textContent = e2.title;
  }
  const y2 = gt("canvas"), d = n.ctx = y2.getContext("2d"), w2 = ft(er, g);
  Jt("click", w2, (t2) => {
    t2.target === D3 && (he2 != gl || _e2 != dl) && Fe.click(n, t2);
  }, true);
  const L2 = n.under = ft(tr, w2);
  w2.appendChild(y2);
  const D3 = n.over = ft(lr, w2);
  e2 = bl(e2);
  const O3 = +ne2(e2.pxAlign, 1), N3 = is(O3);
  (e2.plugins || []).forEach((t2) => {
    t2.opts && (e2 = t2.opts(n, e2) || e2);
  });
  const G3 = e2.ms || 1e-3, k2 = n.series = s2 == 1 ? gs(e2.series || [], jo, es, false) : Hf(e2.series || [null], Xo), H3 = n.axes = gs(e2.axes || [], Ko, Jo, true), x3 = n.scales = {}, q3 = n.bands = e2.bands || [];
  q3.forEach((t2) => {
    t2.fill = X(t2.fill || null), t2.dir = ne2(t2.dir, -1);
  });
  const P3 = s2 == 2 ? k2[1].facets[0].scale : k2[0].scale, $2 = { axes: zs, series: Ds }, U2 = (e2.drawOrder || ["axes", "series"]).map((t2) => $2[t2]);
  function Q2(t2) {
    const l = t2.distr == 3 ? (r) => Pt(r > 0 ? r : t2.clamp(n, r, t2.min, t2.max, t2.key)) : t2.distr == 4 ? (r) => Xn(r, t2.asinh) : t2.distr == 100 ? (r) => t2.fwd(r) : (r) => r;
    return (r) => {
      let f = l(r), { _min: c, _max: p2 } = t2, S = p2 - c;
      return (f - c) / S;
    };
  }
  function B3(t2) {
    let l = x3[t2];
    if (l == null) {
      let r = (e2.scales || Il)[t2] || Il;
      if (r.from != null) {
        B3(r.from);
        let f = Te({}, x3[r.from], r, { key: t2 });
        f.valToPct = Q2(f), x3[t2] = f;
      } else {
        l = x3[t2] = Te({}, t2 == P3 ? ts : Mf, r), l.key = t2;
        let f = l.time, c = l.range, p2 = Ht(c);
        if ((t2 != P3 || s2 == 2 && !f) && (p2 && (c[0] == null || c[1] == null) && (c = { min: c[0] == null ? uo : { mode: 1, hard: c[0], soft: c[0] }, max: c[1] == null ? uo : { mode: 1, hard: c[1], soft: c[1] } }, p2 = false), !p2 && un(c))) {
          let S = c;
          c = (_, v2, b2) => v2 == null ? Tl : sn(v2, b2, S);
        }
        l.range = X(c || (f ? Nf : t2 == P3 ? l.distr == 3 ? Gf : l.distr == 4 ? If : ds : l.distr == 3 ? ws : l.distr == 4 ? Ss : Wf)), l.auto = X(p2 ? false : l.auto), l.clamp = X(l.clamp || bf), l._min = l._max = null, l.valToPct = Q2(l);
      }
    }
  }
  B3("x"), B3("y"), s2 == 1 && k2.forEach((t2) => {
    B3(t2.scale);
  }), H3.forEach((t2) => {
    B3(t2.scale);
  });
  for (let t2 in e2.scales) B3(t2);
  const T2 = x3[P3], j2 = T2.distr;
  let C, I3;
  T2.ori == 0 ? (Xe(g, Zs), C = a2, I3 = u) : (Xe(g, Qs), C = u, I3 = a2);
  const F3 = {};
  for (let t2 in x3) {
    let l = x3[t2];
    (l.min != null || l.max != null) && (F3[t2] = { min: l.min, max: l.max }, l.min = l.max = null);
  }
  const ee2 = e2.tzDate || ((t2) => new Date(Ee(t2 / G3))), z3 = e2.fmtDate || li, Ue = G3 == 1 ? Zr(ee2) : ef(ee2), we2 = Ho(ee2, Oo(G3 == 1 ? Jr : Xr, z3)), te2 = Wo(ee2, No(lf, z3)), fe2 = [], J3 = n.legend = Te({}, sf, e2.legend), V3 = n.cursor = Te({}, pf, { drag: { y: s2 == 2 } }, e2.cursor), be2 = J3.show, Ne = V3.show, Se = J3.markers;
  J3.idxs = fe2, Se.width = X(Se.width), Se.dash = X(Se.dash), Se.stroke = X(Se.stroke), Se.fill = X(Se.fill);
  let se, ct, qe, ye2 = [], St = [], Mt, lt = false, Lt = {};
  if (J3.live) {
    const t2 = k2[1] ? k2[1].values : null;
    lt = t2 != null, Mt = lt ? t2(n, 1, 0) : { _: 0 };
    for (let l in Mt) Lt[l] = Bn;
  }
  if (be2) if (se = gt("table", fr, g), qe = gt("tbody", null, se), J3.mount(n, se), lt) {
    ct = gt("thead", null, se, qe);
    let t2 = gt("tr", null, ct);
    gt("th", null, t2);
    for (var tl in Mt) gt("th", ji, t2).textContent = tl;
  } else Xe(se, cr), J3.live && Xe(se, ur);
  const ll = { show: true }, Dl = { show: false };
  function Ul(t2, l) {
    if (l == 0 && (lt || !J3.live || s2 == 2)) return Tl;
    let r = [], f = gt("tr", ar, qe, qe.childNodes[l]);
    Xe(f, t2.class), t2.show || Xe(f, $t);
    let c = gt("th", null, f);
    if (Se.show) {
      let _ = ft(pr, c);
      if (l > 0) {
        let v2 = Se.width(n, l);
        v2 && (_.style.border = v2 + "px " + Se.dash(n, l) + " " + Se.stroke(n, l)), _.style.background = Se.fill(n, l);
      }
    }
    let p2 = ft(ji, c);
    t2.label instanceof HTMLElement ? p2.appendChild(t2.label) : p2.textContent = t2.label, l > 0 && (Se.show || (p2.style.color = t2.width > 0 ? Se.stroke(n, l) : Se.fill(n, l)), We("click", c, (_) => {
      if (V3._lock) return;
      Bt(_);
      let v2 = k2.indexOf(t2);
      if ((_.ctrlKey || _.metaKey) != J3.isolate) {
        let b2 = k2.some((M3, E3) => E3 > 0 && E3 != v2 && M3.show);
        k2.forEach((M3, E3) => {
          E3 > 0 && vt(E3, b2 ? E3 == v2 ? ll : Dl : ll, true, xe2.setSeries);
        });
      } else vt(v2, { show: !t2.show }, true, xe2.setSeries);
    }, false), sl && We(Zi, c, (_) => {
      V3._lock || (Bt(_), vt(k2.indexOf(t2), Sl, true, xe2.setSeries));
    }, false));
    for (var S in Mt) {
      let _ = gt("td", hr, f);
      _.textContent = "--", r.push(_);
    }
    return [f, r];
  }
  const Nt = /* @__PURE__ */ new Map();
  function We(t2, l, r, f = true) {
    const c = Nt.get(l) || {}, p2 = V3.bind[t2](n, l, r, f);
    p2 && (Jt(t2, l, c[t2] = p2), Nt.set(l, c));
  }
  function nl(t2, l, r) {
    const f = Nt.get(l) || {};
    for (let c in f) (t2 == null || c == t2) && ($n(c, l, f[c]), delete f[c]);
    t2 == null && Nt.delete(l);
  }
  let At = 0, Wt = 0, K3 = 0, A3 = 0, pe2 = 0, Me = 0, il = pe2, Gt = Me, _t = K3, It = A3, $e = 0, nt = 0, Ke = 0, at2 = 0;
  n.bbox = {};
  let wn = false, Kl = false, ol = false, Yt = false, jl = false, it = false;
  function Sn(t2, l, r) {
    (r || t2 != n.width || l != n.height) && wi(t2, l), al(false), ol = true, Kl = true, pl();
  }
  function wi(t2, l) {
    n.width = At = K3 = t2, n.height = Wt = A3 = l, pe2 = Me = 0, xs(), Ts();
    let r = n.bbox;
    $e = r.left = Qt(pe2 * oe2, 0.5), nt = r.top = Qt(Me * oe2, 0.5), Ke = r.width = Qt(K3 * oe2, 0.5), at2 = r.height = Qt(A3 * oe2, 0.5);
  }
  const ys = 3;
  function vs() {
    let t2 = false, l = 0;
    for (; !t2; ) {
      l++;
      let r = Vs(l), f = Rs(l);
      t2 = l == ys || r && f, t2 || (wi(n.width, n.height), Kl = true);
    }
  }
  function ks({ width: t2, height: l }) {
    Sn(t2, l);
  }
  n.setSize = ks;
  function xs() {
    let t2 = false, l = false, r = false, f = false;
    H3.forEach((c, p2) => {
      if (c.show && c._show) {
        let { side: S, _size: _ } = c, v2 = S % 2, b2 = c.label != null ? c.labelSize : 0, M3 = _ + b2;
        M3 > 0 && (v2 ? (K3 -= M3, S == 3 ? (pe2 += M3, f = true) : r = true) : (A3 -= M3, S == 0 ? (Me += M3, t2 = true) : l = true));
      }
    }), Ut[0] = t2, Ut[1] = r, Ut[2] = l, Ut[3] = f, K3 -= Ct[1] + Ct[3], pe2 += Ct[3], A3 -= Ct[2] + Ct[0], Me += Ct[0];
  }
  function Ts() {
    let t2 = pe2 + K3, l = Me + A3, r = pe2, f = Me;
    function c(p2, S) {
      switch (p2) {
        case 1:
          return t2 += S, t2 - S;
        case 2:
          return l += S, l - S;
        case 3:
          return r -= S, r + S;
        case 0:
          return f -= S, f + S;
      }
    }
    H3.forEach((p2, S) => {
      if (p2.show && p2._show) {
        let _ = p2.side;
        p2._pos = c(_, p2._size), p2.label != null && (p2._lpos = c(_, p2.labelSize));
      }
    });
  }
  if (V3.dataIdx == null) {
    let t2 = V3.hover, l = t2.skip = new Set(t2.skip ?? []);
    l.add(void 0);
    let r = t2.prox = X(t2.prox), f = t2.bias ??= 0;
    V3.dataIdx = (c, p2, S, _) => {
      if (p2 == 0) return S;
      let v2 = S, b2 = r(c, p2, S, _) ?? ce2, M3 = b2 >= 0 && b2 < ce2, E3 = T2.ori == 0 ? K3 : A3, Y2 = V3.left, ie2 = i2[0], le2 = i2[p2];
      if (l.has(le2[S])) {
        v2 = null;
        let Z2 = null, W3 = null, R2;
        if (f == 0 || f == -1) for (R2 = S; Z2 == null && R2-- > 0; ) l.has(le2[R2]) || (Z2 = R2);
        if (f == 0 || f == 1) for (R2 = S; W3 == null && R2++ < le2.length; ) l.has(le2[R2]) || (W3 = R2);
        if (Z2 != null || W3 != null) if (M3) {
          let ge2 = Z2 == null ? -1 / 0 : C(ie2[Z2], T2, E3, 0), ve = W3 == null ? 1 / 0 : C(ie2[W3], T2, E3, 0), Re = Y2 - ge2, ue2 = ve - Y2;
          Re <= ue2 ? Re <= b2 && (v2 = Z2) : ue2 <= b2 && (v2 = W3);
        } else v2 = W3 == null ? Z2 : Z2 == null ? W3 : S - Z2 <= W3 - S ? Z2 : W3;
      } else M3 && Ae(Y2 - C(ie2[S], T2, E3, 0)) > b2 && (v2 = null);
      return v2;
    };
  }
  const Bt = (t2) => {
    V3.event = t2;
  };
  V3.idxs = fe2, V3._lock = false;
  let Oe = V3.points;
  Oe.show = X(Oe.show), Oe.size = X(Oe.size), Oe.stroke = X(Oe.stroke), Oe.width = X(Oe.width), Oe.fill = X(Oe.fill);
  const yt = n.focus = Te({}, e2.focus || { alpha: 0.3 }, V3.focus), sl = yt.prox >= 0, rl = sl && Oe.one;
  let ot = [], fl = [], ul = [];
  function Si(t2, l) {
    let r = Oe.show(n, l);
    if (r instanceof HTMLElement) return Xe(r, rr), Xe(r, t2.class), bt(r, -10, -10, K3, A3), D3.insertBefore(r, ot[l]), r;
  }
  function _i(t2, l) {
    if (s2 == 1 || l > 0) {
      let r = s2 == 1 && x3[t2.scale].time, f = t2.value;
      t2.value = r ? xo(f) ? Wo(ee2, No(f, z3)) : f || te2 : f || kf, t2.label = t2.label || (r ? mf : hf);
    }
    if (rl || l > 0) {
      t2.width = t2.width == null ? 1 : t2.width, t2.paths = t2.paths || Ff || br, t2.fillTo = X(t2.fillTo || Af), t2.pxAlign = +ne2(t2.pxAlign, O3), t2.pxRound = is(t2.pxAlign), t2.stroke = X(t2.stroke || null), t2.fill = X(t2.fill || null), t2._stroke = t2._fill = t2._paths = t2._focus = null;
      let r = xf(Be(1, t2.width), 1), f = t2.points = Te({}, { size: r, width: Be(1, r * 0.2), stroke: t2.stroke, space: r * 2, paths: Of, _stroke: null, _fill: null }, t2.points);
      f.show = X(f.show), f.filter = X(f.filter), f.fill = X(f.fill), f.stroke = X(f.stroke), f.paths = X(f.paths), f.pxAlign = t2.pxAlign;
    }
    if (be2) {
      let r = Ul(t2, l);
      ye2.splice(l, 0, r[0]), St.splice(l, 0, r[1]), J3.values.push(null);
    }
    if (Ne) {
      fe2.splice(l, 0, null);
      let r = null;
      rl ? l == 0 && (r = Si(t2, l)) : l > 0 && (r = Si(t2, l)), ot.splice(l, 0, r), fl.splice(l, 0, 0), ul.splice(l, 0, 0);
    }
    Ve("addSeries", l);
  }
  function bs(t2, l) {
    l = l ?? k2.length, t2 = s2 == 1 ? di(t2, l, jo, es) : di(t2, l, {}, Xo), k2.splice(l, 0, t2), _i(k2[l], l);
  }
  n.addSeries = bs;
  function Ms(t2) {
    if (k2.splice(t2, 1), be2) {
      J3.values.splice(t2, 1), St.splice(t2, 1);
      let l = ye2.splice(t2, 1)[0];
      nl(null, l.firstChild), l.remove();
    }
    Ne && (fe2.splice(t2, 1), ot.splice(t2, 1)[0].remove(), fl.splice(t2, 1), ul.splice(t2, 1)), Ve("delSeries", t2);
  }
  n.delSeries = Ms;
  const Ut = [false, false, false, false];
  function As(t2, l) {
    if (t2._show = t2.show, t2.show) {
      let r = t2.side % 2, f = x3[t2.scale];
      f == null && (t2.scale = r ? k2[1].scale : P3, f = x3[t2.scale]);
      let c = f.time;
      t2.size = X(t2.size), t2.space = X(t2.space), t2.rotate = X(t2.rotate), Ht(t2.incrs) && t2.incrs.forEach((S) => {
        !Ot.has(S) && Ot.set(S, vo(S));
      }), t2.incrs = X(t2.incrs || (f.distr == 2 ? jr : c ? G3 == 1 ? $r : Qr : Xt)), t2.splits = X(t2.splits || (c && f.distr == 1 ? Ue : f.distr == 3 ? ui : f.distr == 4 ? wf : df)), t2.stroke = X(t2.stroke), t2.grid.stroke = X(t2.grid.stroke), t2.ticks.stroke = X(t2.ticks.stroke), t2.border.stroke = X(t2.border.stroke);
      let p2 = t2.values;
      t2.values = Ht(p2) && !Ht(p2[0]) ? X(p2) : c ? Ht(p2) ? Ho(ee2, Oo(p2, z3)) : xo(p2) ? tf(ee2, p2) : p2 || we2 : p2 || gf, t2.filter = X(t2.filter || (f.distr >= 3 && f.log == 10 ? yf : f.distr == 3 && f.log == 2 ? vf : wo)), t2.font = _s(t2.font), t2.labelFont = _s(t2.labelFont), t2._size = t2.size(n, null, l, 0), t2._space = t2._rotate = t2._incrs = t2._found = t2._splits = t2._values = null, t2._size > 0 && (Ut[l] = true, t2._el = ft(nr, w2));
    }
  }
  function Ll(t2, l, r, f) {
    let [c, p2, S, _] = r, v2 = l % 2, b2 = 0;
    return v2 == 0 && (_ || p2) && (b2 = l == 0 && !c || l == 2 && !S ? Ee(Ko.size / 3) : 0), v2 == 1 && (c || S) && (b2 = l == 1 && !p2 || l == 3 && !_ ? Ee(Jo.size / 2) : 0), b2;
  }
  const yi = n.padding = (e2.padding || [Ll, Ll, Ll, Ll]).map((t2) => X(ne2(t2, Ll))), Ct = n._padding = yi.map((t2, l) => t2(n, l, Ut, 0));
  let ze, Pe2 = null, De = null;
  const ql = s2 == 1 ? k2[0].idxs : null;
  let pt = null, Cl = false;
  function vi(t2, l) {
    if (i2 = t2 ?? [], n.data = n._data = i2, s2 == 2) {
      ze = 0;
      for (let r = 1; r < k2.length; r++) ze += i2[r][0].length;
    } else {
      i2.length == 0 && (n.data = n._data = i2 = [[]]), pt = i2[0], ze = pt.length;
      let r = i2;
      if (j2 == 2) {
        r = i2.slice();
        let f = r[0] = Array(ze);
        for (let c = 0; c < ze; c++) f[c] = c;
      }
      n._data = i2 = r;
    }
    if (al(true), Ve("setData"), j2 == 2 && (ol = true), l !== false) {
      let r = T2;
      r.auto(n, Cl) ? _n() : Rt(P3, r.min, r.max), Yt = Yt || V3.left >= 0, it = true, pl();
    }
  }
  n.setData = vi;
  function _n() {
    Cl = true;
    let t2, l;
    s2 == 1 && (ze > 0 ? (Pe2 = ql[0] = 0, De = ql[1] = ze - 1, t2 = i2[0][Pe2], l = i2[0][De], j2 == 2 ? (t2 = Pe2, l = De) : t2 == l && (j2 == 3 ? [t2, l] = on(t2, t2, T2.log, false) : j2 == 4 ? [t2, l] = Jn(t2, t2, T2.log, false) : T2.time ? l = t2 + Ee(86400 / G3) : [t2, l] = sn(t2, l, Zn, true))) : (Pe2 = ql[0] = t2 = null, De = ql[1] = l = null)), Rt(P3, t2, l);
  }
  let $l, cl, yn, vn, kn, xn, Tn, bn, Mn, je;
  function ki(t2, l, r, f, c, p2) {
    t2 ??= $i, r ??= ti, f ??= "butt", c ??= $i, p2 ??= "round", t2 != $l && (d.strokeStyle = $l = t2), c != cl && (d.fillStyle = cl = c), l != yn && (d.lineWidth = yn = l), p2 != kn && (d.lineJoin = kn = p2), f != xn && (d.lineCap = xn = f), r != vn && d.setLineDash(vn = r);
  }
  function xi(t2, l, r, f) {
    l != cl && (d.fillStyle = cl = l), t2 != Tn && (d.font = Tn = t2), r != bn && (d.textAlign = bn = r), f != Mn && (d.textBaseline = Mn = f);
  }
  function An(t2, l, r, f, c = 0) {
    if (f.length > 0 && t2.auto(n, Cl) && (l == null || l.min == null)) {
      let p2 = ne2(Pe2, 0), S = ne2(De, f.length - 1), _ = r.min == null ? _r(f, p2, S, c, t2.distr == 3) : [r.min, r.max];
      t2.min = wt(t2.min, r.min = _[0]), t2.max = Be(t2.max, r.max = _[1]);
    }
  }
  const Ti = { min: null, max: null };
  function Es() {
    for (let f in x3) {
      let c = x3[f];
      F3[f] == null && (c.min == null || F3[P3] != null && c.auto(n, Cl)) && (F3[f] = Ti);
    }
    for (let f in x3) {
      let c = x3[f];
      F3[f] == null && c.from != null && F3[c.from] != null && (F3[f] = Ti);
    }
    F3[P3] != null && al(true);
    let t2 = {};
    for (let f in F3) {
      let c = F3[f];
      if (c != null) {
        let p2 = t2[f] = bl(x3[f], Er);
        if (c.min != null) Te(p2, c);
        else if (f != P3 || s2 == 2) if (ze == 0 && p2.from == null) {
          let S = p2.range(n, null, null, f);
          p2.min = S[0], p2.max = S[1];
        } else p2.min = ce2, p2.max = -ce2;
      }
    }
    if (ze > 0) {
      k2.forEach((f, c) => {
        if (s2 == 1) {
          let p2 = f.scale, S = F3[p2];
          if (S == null) return;
          let _ = t2[p2];
          if (c == 0) {
            let v2 = _.range(n, _.min, _.max, p2);
            _.min = v2[0], _.max = v2[1], Pe2 = dt(_.min, i2[0]), De = dt(_.max, i2[0]), De - Pe2 > 1 && (i2[0][Pe2] < _.min && Pe2++, i2[0][De] > _.max && De--), f.min = pt[Pe2], f.max = pt[De];
          } else f.show && f.auto && An(_, S, f, i2[c], f.sorted);
          f.idxs[0] = Pe2, f.idxs[1] = De;
        } else if (c > 0 && f.show && f.auto) {
          let [p2, S] = f.facets, _ = p2.scale, v2 = S.scale, [b2, M3] = i2[c], E3 = t2[_], Y2 = t2[v2];
          E3 != null && An(E3, F3[_], p2, b2, p2.sorted), Y2 != null && An(Y2, F3[v2], S, M3, S.sorted), f.min = S.min, f.max = S.max;
        }
      });
      for (let f in t2) {
        let c = t2[f], p2 = F3[f];
        if (c.from == null && (p2 == null || p2.min == null)) {
          let S = c.range(n, c.min == ce2 ? null : c.min, c.max == -ce2 ? null : c.max, f);
          c.min = S[0], c.max = S[1];
        }
      }
    }
    for (let f in t2) {
      let c = t2[f];
      if (c.from != null) {
        let p2 = t2[c.from];
        if (p2.min == null) c.min = c.max = null;
        else {
          let S = c.range(n, p2.min, p2.max, f);
          c.min = S[0], c.max = S[1];
        }
      }
    }
    let l = {}, r = false;
    for (let f in t2) {
      let c = t2[f], p2 = x3[f];
      if (p2.min != c.min || p2.max != c.max) {
        p2.min = c.min, p2.max = c.max;
        let S = p2.distr;
        p2._min = S == 3 ? Pt(p2.min) : S == 4 ? Xn(p2.min, p2.asinh) : S == 100 ? p2.fwd(p2.min) : p2.min, p2._max = S == 3 ? Pt(p2.max) : S == 4 ? Xn(p2.max, p2.asinh) : S == 100 ? p2.fwd(p2.max) : p2.max, l[f] = r = true;
      }
    }
    if (r) {
      k2.forEach((f, c) => {
        s2 == 2 ? c > 0 && l.y && (f._paths = null) : l[f.scale] && (f._paths = null);
      });
      for (let f in l) ol = true, Ve("setScale", f);
      Ne && V3.left >= 0 && (Yt = it = true);
    }
    for (let f in F3) F3[f] = null;
  }
  function Ps(t2) {
    let l = ei(Pe2 - 1, 0, ze - 1), r = ei(De + 1, 0, ze - 1);
    for (; t2[l] == null && l > 0; ) l--;
    for (; t2[r] == null && r < ze - 1; ) r++;
    return [l, r];
  }
  function Ds() {
    if (ze > 0) {
      let t2 = k2.some((l) => l._focus) && je != yt.alpha;
      t2 && (d.globalAlpha = je = yt.alpha), k2.forEach((l, r) => {
        if (r > 0 && l.show && (bi(r, false), bi(r, true), l._paths == null)) {
          let f = je;
          je != l.alpha && (d.globalAlpha = je = l.alpha);
          let c = s2 == 2 ? [0, i2[r][0].length - 1] : Ps(i2[r]);
          l._paths = l.paths(n, r, c[0], c[1]), je != f && (d.globalAlpha = je = f);
        }
      }), k2.forEach((l, r) => {
        if (r > 0 && l.show) {
          let f = je;
          je != l.alpha && (d.globalAlpha = je = l.alpha), l._paths != null && Mi(r, false);
          {
            let c = l._paths != null ? l._paths.gaps : null, p2 = l.points.show(n, r, Pe2, De, c), S = l.points.filter(n, r, p2, c);
            (p2 || S) && (l.points._paths = l.points.paths(n, r, Pe2, De, S), Mi(r, true));
          }
          je != f && (d.globalAlpha = je = f), Ve("drawSeries", r);
        }
      }), t2 && (d.globalAlpha = je = 1);
    }
  }
  function bi(t2, l) {
    let r = l ? k2[t2].points : k2[t2];
    r._stroke = r.stroke(n, t2), r._fill = r.fill(n, t2);
  }
  function Mi(t2, l) {
    let r = l ? k2[t2].points : k2[t2], { stroke: f, fill: c, clip: p2, flags: S, _stroke: _ = r._stroke, _fill: v2 = r._fill, _width: b2 = r.width } = r._paths;
    b2 = ae2(b2 * oe2, 3);
    let M3 = null, E3 = b2 % 2 / 2;
    l && v2 == null && (v2 = b2 > 0 ? "#fff" : _);
    let Y2 = r.pxAlign == 1 && E3 > 0;
    if (Y2 && d.translate(E3, E3), !l) {
      let ie2 = $e - b2 / 2, le2 = nt - b2 / 2, Z2 = Ke + b2, W3 = at2 + b2;
      M3 = new Path2D(), M3.rect(ie2, le2, Z2, W3);
    }
    l ? En(_, b2, r.dash, r.cap, v2, f, c, S, p2) : Ls(t2, _, b2, r.dash, r.cap, v2, f, c, S, M3, p2), Y2 && d.translate(-E3, -E3);
  }
  function Ls(t2, l, r, f, c, p2, S, _, v2, b2, M3) {
    let E3 = false;
    v2 != 0 && q3.forEach((Y2, ie2) => {
      if (Y2.series[0] == t2) {
        let le2 = k2[Y2.series[1]], Z2 = i2[Y2.series[1]], W3 = (le2._paths || Il).band;
        Ht(W3) && (W3 = Y2.dir == 1 ? W3[0] : W3[1]);
        let R2, ge2 = null;
        le2.show && W3 && vr(Z2, Pe2, De) ? (ge2 = Y2.fill(n, ie2) || p2, R2 = le2._paths.clip) : W3 = null, En(l, r, f, c, ge2, S, _, v2, b2, M3, R2, W3), E3 = true;
      }
    }), E3 || En(l, r, f, c, p2, S, _, v2, b2, M3);
  }
  const Ai = Al | ai;
  function En(t2, l, r, f, c, p2, S, _, v2, b2, M3, E3) {
    ki(t2, l, r, f, c), (v2 || b2 || E3) && (d.save(), v2 && d.clip(v2), b2 && d.clip(b2)), E3 ? (_ & Ai) == Ai ? (d.clip(E3), M3 && d.clip(M3), Zl(c, S), Jl(t2, p2, l)) : _ & ai ? (Zl(c, S), d.clip(E3), Jl(t2, p2, l)) : _ & Al && (d.save(), d.clip(E3), M3 && d.clip(M3), Zl(c, S), d.restore(), Jl(t2, p2, l)) : (Zl(c, S), Jl(t2, p2, l)), (v2 || b2 || E3) && d.restore();
  }
  function Jl(t2, l, r) {
    r > 0 && (l instanceof Map ? l.forEach((f, c) => {
      d.strokeStyle = $l = c, d.stroke(f);
    }) : l != null && t2 && d.stroke(l));
  }
  function Zl(t2, l) {
    l instanceof Map ? l.forEach((r, f) => {
      d.fillStyle = cl = f, d.fill(r);
    }) : l != null && t2 && d.fill(l);
  }
  function Cs(t2, l, r, f) {
    let c = H3[t2], p2;
    if (f <= 0) p2 = [0, 0];
    else {
      let S = c._space = c.space(n, t2, l, r, f), _ = c._incrs = c.incrs(n, t2, l, r, f, S);
      p2 = Yf(l, r, _, f, S);
    }
    return c._found = p2;
  }
  function Pn(t2, l, r, f, c, p2, S, _, v2, b2) {
    let M3 = S % 2 / 2;
    O3 == 1 && d.translate(M3, M3), ki(_, S, v2, b2, _), d.beginPath();
    let E3, Y2, ie2, le2, Z2 = c + (f == 0 || f == 3 ? -p2 : p2);
    r == 0 ? (Y2 = c, le2 = Z2) : (E3 = c, ie2 = Z2);
    for (let W3 = 0; W3 < t2.length; W3++) l[W3] != null && (r == 0 ? E3 = ie2 = t2[W3] : Y2 = le2 = t2[W3], d.moveTo(E3, Y2), d.lineTo(ie2, le2));
    d.stroke(), O3 == 1 && d.translate(-M3, -M3);
  }
  function Vs(t2) {
    let l = true;
    return H3.forEach((r, f) => {
      if (!r.show) return;
      let c = x3[r.scale];
      if (c.min == null) {
        r._show && (l = false, r._show = false, al(false));
        return;
      } else r._show || (l = false, r._show = true, al(false));
      let p2 = r.side, S = p2 % 2, { min: _, max: v2 } = c, [b2, M3] = Cs(f, _, v2, S == 0 ? K3 : A3);
      if (M3 == 0) return;
      let E3 = c.distr == 2, Y2 = r._splits = r.splits(n, f, _, v2, b2, M3, E3), ie2 = c.distr == 2 ? Y2.map((R2) => pt[R2]) : Y2, le2 = c.distr == 2 ? pt[Y2[1]] - pt[Y2[0]] : b2, Z2 = r._values = r.values(n, r.filter(n, ie2, f, M3, le2), f, M3, le2);
      r._rotate = p2 == 2 ? r.rotate(n, Z2, f, M3) : 0;
      let W3 = r._size;
      r._size = ut(r.size(n, Z2, f, t2)), W3 != null && r._size != W3 && (l = false);
    }), l;
  }
  function Rs(t2) {
    let l = true;
    return yi.forEach((r, f) => {
      let c = r(n, f, Ut, t2);
      c != Ct[f] && (l = false), Ct[f] = c;
    }), l;
  }
  function zs() {
    for (let t2 = 0; t2 < H3.length; t2++) {
      let l = H3[t2];
      if (!l.show || !l._show) continue;
      let r = l.side, f = r % 2, c, p2, S = l.stroke(n, t2), _ = r == 0 || r == 3 ? -1 : 1, [v2, b2] = l._found;
      if (l.label != null) {
        let Ie = l.labelGap * _, Qe = Ee((l._lpos + Ie) * oe2);
        xi(l.labelFont[0], S, "center", r == 2 ? "top" : qi), d.save(), f == 1 ? (c = p2 = 0, d.translate(Qe, Ee(nt + at2 / 2)), d.rotate((r == 3 ? -rn : rn) / 2)) : (c = Ee($e + Ke / 2), p2 = Qe);
        let qt = mo(l.label) ? l.label(n, t2, v2, b2) : l.label;
        d.fillText(qt, c, p2), d.restore();
      }
      if (b2 == 0) continue;
      let M3 = x3[l.scale], E3 = f == 0 ? Ke : at2, Y2 = f == 0 ? $e : nt, ie2 = l._splits, le2 = M3.distr == 2 ? ie2.map((Ie) => pt[Ie]) : ie2, Z2 = M3.distr == 2 ? pt[ie2[1]] - pt[ie2[0]] : v2, W3 = l.ticks, R2 = l.border, ge2 = W3.show ? W3.size : 0, ve = Ee(ge2 * oe2), Re = Ee((l.alignTo == 2 ? l._size - ge2 - l.gap : l.gap) * oe2), ue2 = l._rotate * -rn / 180, ke2 = N3(l._pos * oe2), Je = (ve + Re) * _, Ge = ke2 + Je;
      p2 = f == 0 ? Ge : 0, c = f == 1 ? Ge : 0;
      let st = l.font[0], ht = l.align == 1 ? yl : l.align == 2 ? Wn : ue2 > 0 ? yl : ue2 < 0 ? Wn : f == 0 ? "center" : r == 3 ? Wn : yl, xt = ue2 || f == 1 ? "middle" : r == 2 ? "top" : qi;
      xi(st, S, ht, xt);
      let Ze = l.font[1] * l.lineGap, rt = ie2.map((Ie) => N3(h2(Ie, M3, E3, Y2))), mt = l._values;
      for (let Ie = 0; Ie < mt.length; Ie++) {
        let Qe = mt[Ie];
        if (Qe != null) {
          f == 0 ? c = rt[Ie] : p2 = rt[Ie], Qe = "" + Qe;
          let qt = Qe.indexOf(`
`) == -1 ? [Qe] : Qe.split(/\n/gm);
          for (let Ye = 0; Ye < qt.length; Ye++) {
            let Ki = qt[Ye];
            ue2 ? (d.save(), d.translate(c, p2 + Ye * Ze), d.rotate(ue2), d.fillText(Ki, 0, 0), d.restore()) : d.fillText(Ki, c, p2 + Ye * Ze);
          }
        }
      }
      W3.show && Pn(rt, W3.filter(n, le2, t2, b2, Z2), f, r, ke2, ve, ae2(W3.width * oe2, 3), W3.stroke(n, t2), W3.dash, W3.cap);
      let Tt = l.grid;
      Tt.show && Pn(rt, Tt.filter(n, le2, t2, b2, Z2), f, f == 0 ? 2 : 1, f == 0 ? nt : $e, f == 0 ? at2 : Ke, ae2(Tt.width * oe2, 3), Tt.stroke(n, t2), Tt.dash, Tt.cap), R2.show && Pn([ke2], [1], f == 0 ? 1 : 0, f == 0 ? 1 : 2, f == 1 ? nt : $e, f == 1 ? at2 : Ke, ae2(R2.width * oe2, 3), R2.stroke(n, t2), R2.dash, R2.cap);
    }
    Ve("drawAxes");
  }
  function al(t2) {
    k2.forEach((l, r) => {
      r > 0 && (l._paths = null, t2 && (s2 == 1 ? (l.min = null, l.max = null) : l.facets.forEach((f) => {
        f.min = null, f.max = null;
      })));
    });
  }
  let Ql = false, Dn = false, Vl = [];
  function Fs() {
    Dn = false;
    for (let t2 = 0; t2 < Vl.length; t2++) Ve(...Vl[t2]);
    Vl.length = 0;
  }
  function pl() {
    Ql || (zr(Ei), Ql = true);
  }
  function Os(t2, l = false) {
    Ql = true, Dn = l, t2(n), Ei(), l && Vl.length > 0 && queueMicrotask(Fs);
  }
  n.batch = Os;
  function Ei() {
    if (wn && (Es(), wn = false), ol && (vs(), ol = false), Kl) {
      if (de2(L2, yl, pe2), de2(L2, "top", Me), de2(L2, Hl, K3), de2(L2, Nl, A3), de2(D3, yl, pe2), de2(D3, "top", Me), de2(D3, Hl, K3), de2(D3, Nl, A3), de2(w2, Hl, At), de2(w2, Nl, Wt), y2.width = Ee(At * oe2), y2.height = Ee(Wt * oe2), H3.forEach(({ _el: t2, _show: l, _size: r, _pos: f, side: c }) => {
        if (t2 != null) if (l) {
          let p2 = c === 3 || c === 0 ? r : 0, S = c % 2 == 1;
          de2(t2, S ? "left" : "top", f - p2), de2(t2, S ? "width" : "height", r), de2(t2, S ? "top" : "left", S ? Me : pe2), de2(t2, S ? "height" : "width", S ? A3 : K3), jn(t2, $t);
        } else Xe(t2, $t);
      }), $l = cl = yn = kn = xn = Tn = bn = Mn = vn = null, je = 1, Fl(true), pe2 != il || Me != Gt || K3 != _t || A3 != It) {
        al(false);
        let t2 = K3 / _t, l = A3 / It;
        if (Ne && !Yt && V3.left >= 0) {
          V3.left *= t2, V3.top *= l, hl && bt(hl, Ee(V3.left), 0, K3, A3), ml && bt(ml, 0, Ee(V3.top), K3, A3);
          for (let r = 0; r < ot.length; r++) {
            let f = ot[r];
            f != null && (fl[r] *= t2, ul[r] *= l, bt(f, ut(fl[r]), ut(ul[r]), K3, A3));
          }
        }
        if (me.show && !jl && me.left >= 0 && me.width > 0) {
          me.left *= t2, me.width *= t2, me.top *= l, me.height *= l;
          for (let r in Fn) de2(wl, r, me[r]);
        }
        il = pe2, Gt = Me, _t = K3, It = A3;
      }
      Ve("setSize"), Kl = false;
    }
    At > 0 && Wt > 0 && (d.clearRect(0, 0, y2.width, y2.height), Ve("drawClear"), U2.forEach((t2) => t2()), Ve("draw")), me.show && jl && (Xl(me), jl = false), Ne && Yt && (jt(null, true, false), Yt = false), J3.show && J3.live && it && (Rn(), it = false), m || (m = true, n.status = 1, Ve("ready")), Cl = false, Ql = false;
  }
  n.redraw = (t2, l) => {
    ol = l || false, t2 !== false ? Rt(P3, T2.min, T2.max) : pl();
  };
  function Ln(t2, l) {
    let r = x3[t2];
    if (r.from == null) {
      if (ze == 0) {
        let f = r.range(n, l.min, l.max, t2);
        l.min = f[0], l.max = f[1];
      }
      if (l.min > l.max) {
        let f = l.min;
        l.min = l.max, l.max = f;
      }
      if (ze > 1 && l.min != null && l.max != null && l.max - l.min < 1e-16) return;
      t2 == P3 && r.distr == 2 && ze > 0 && (l.min = dt(l.min, i2[0]), l.max = dt(l.max, i2[0]), l.min == l.max && l.max++), F3[t2] = l, wn = true, pl();
    }
  }
  n.setScale = Ln;
  let Cn, Vn, hl, ml, Pi, Di, gl, dl, Li, Ci, he2, _e2, Vt = false;
  const Fe = V3.drag;
  let Le = Fe.x, Ce = Fe.y;
  Ne && (V3.x && (Cn = ft(or, D3)), V3.y && (Vn = ft(sr, D3)), T2.ori == 0 ? (hl = Cn, ml = Vn) : (hl = Vn, ml = Cn), he2 = V3.left, _e2 = V3.top);
  const me = n.select = Te({ show: true, over: true, left: 0, width: 0, top: 0, height: 0 }, e2.select), wl = me.show ? ft(ir, me.over ? D3 : L2) : null;
  function Xl(t2, l) {
    if (me.show) {
      for (let r in t2) me[r] = t2[r], r in Fn && de2(wl, r, t2[r]);
      l !== false && Ve("setSelect");
    }
  }
  n.setSelect = Xl;
  function Hs(t2) {
    if (k2[t2].show) be2 && jn(ye2[t2], $t);
    else if (be2 && Xe(ye2[t2], $t), Ne) {
      let r = rl ? ot[0] : ot[t2];
      r != null && bt(r, -10, -10, K3, A3);
    }
  }
  function Rt(t2, l, r) {
    Ln(t2, { min: l, max: r });
  }
  function vt(t2, l, r, f) {
    l.focus != null && Ys(t2), l.show != null && k2.forEach((c, p2) => {
      p2 > 0 && (t2 == p2 || t2 == null) && (c.show = l.show, Hs(p2), s2 == 2 ? (Rt(c.facets[0].scale, null, null), Rt(c.facets[1].scale, null, null)) : Rt(c.scale, null, null), pl());
    }), r !== false && Ve("setSeries", t2, l), f && Ol("setSeries", n, t2, l);
  }
  n.setSeries = vt;
  function Ns(t2, l) {
    Te(q3[t2], l);
  }
  function Ws(t2, l) {
    t2.fill = X(t2.fill || null), t2.dir = ne2(t2.dir, -1), l = l ?? q3.length, q3.splice(l, 0, t2);
  }
  function Gs(t2) {
    t2 == null ? q3.length = 0 : q3.splice(t2, 1);
  }
  n.addBand = Ws, n.setBand = Ns, n.delBand = Gs;
  function Is(t2, l) {
    k2[t2].alpha = l, Ne && ot[t2] != null && (ot[t2].style.opacity = l), be2 && ye2[t2] && (ye2[t2].style.opacity = l);
  }
  let Et, zt, Kt;
  const Sl = { focus: true };
  function Ys(t2) {
    if (t2 != Kt) {
      let l = t2 == null, r = yt.alpha != 1;
      k2.forEach((f, c) => {
        if (s2 == 1 || c > 0) {
          let p2 = l || c == 0 || c == t2;
          f._focus = l ? null : p2, r && Is(c, p2 ? 1 : yt.alpha);
        }
      }), Kt = t2, r && pl();
    }
  }
  be2 && sl && We(Qi, se, (t2) => {
    V3._lock || (Bt(t2), Kt != null && vt(null, Sl, true, xe2.setSeries));
  });
  function kt(t2, l, r) {
    let f = x3[l];
    r && (t2 = t2 / oe2 - (f.ori == 1 ? Me : pe2));
    let c = K3;
    f.ori == 1 && (c = A3, t2 = c - t2), f.dir == -1 && (t2 = c - t2);
    let p2 = f._min, S = f._max, _ = t2 / c, v2 = p2 + (S - p2) * _, b2 = f.distr;
    return b2 == 3 ? xl(10, v2) : b2 == 4 ? xr(v2, f.asinh) : b2 == 100 ? f.bwd(v2) : v2;
  }
  function Bs(t2, l) {
    let r = kt(t2, P3, l);
    return dt(r, i2[0], Pe2, De);
  }
  n.valToIdx = (t2) => dt(t2, i2[0]), n.posToIdx = Bs, n.posToVal = kt, n.valToPos = (t2, l, r) => x3[l].ori == 0 ? a2(t2, x3[l], r ? Ke : K3, r ? $e : 0) : u(t2, x3[l], r ? at2 : A3, r ? nt : 0), n.setCursor = (t2, l, r) => {
    he2 = t2.left, _e2 = t2.top, jt(null, l, r);
  };
  function Vi(t2, l) {
    de2(wl, yl, me.left = t2), de2(wl, Hl, me.width = l);
  }
  function Ri(t2, l) {
    de2(wl, "top", me.top = t2), de2(wl, Nl, me.height = l);
  }
  let Rl = T2.ori == 0 ? Vi : Ri, zl = T2.ori == 1 ? Vi : Ri;
  function Us() {
    if (be2 && J3.live) for (let t2 = s2 == 2 ? 1 : 0; t2 < k2.length; t2++) {
      if (t2 == 0 && lt) continue;
      let l = J3.values[t2], r = 0;
      for (let f in l) St[t2][r++].firstChild.nodeValue = l[f];
    }
  }
  function Rn(t2, l) {
    if (t2 != null && (t2.idxs ? t2.idxs.forEach((r, f) => {
      fe2[f] = r;
    }) : Ar(t2.idx) || fe2.fill(t2.idx), J3.idx = fe2[0]), be2 && J3.live) {
      for (let r = 0; r < k2.length; r++) (r > 0 || s2 == 1 && !lt) && Ks(r, fe2[r]);
      Us();
    }
    it = false, l !== false && Ve("setLegend");
  }
  n.setLegend = Rn;
  function Ks(t2, l) {
    let r = k2[t2], f = t2 == 0 && j2 == 2 ? pt : i2[t2], c;
    lt ? c = r.values(n, t2, l) ?? Lt : (c = r.value(n, l == null ? null : f[l], t2, l), c = c == null ? Lt : { _: c }), J3.values[t2] = c;
  }
  function jt(t2, l, r) {
    Li = he2, Ci = _e2, [he2, _e2] = V3.move(n, he2, _e2), V3.left = he2, V3.top = _e2, Ne && (hl && bt(hl, Ee(he2), 0, K3, A3), ml && bt(ml, 0, Ee(_e2), K3, A3));
    let f, c = Pe2 > De;
    Et = ce2, zt = null;
    let p2 = T2.ori == 0 ? K3 : A3, S = T2.ori == 1 ? K3 : A3;
    if (he2 < 0 || ze == 0 || c) {
      f = V3.idx = null;
      for (let _ = 0; _ < k2.length; _++) {
        let v2 = ot[_];
        v2 != null && bt(v2, -10, -10, K3, A3);
      }
      sl && vt(null, Sl, true, t2 == null && xe2.setSeries), J3.live && (fe2.fill(f), it = true);
    } else {
      let _, v2, b2;
      s2 == 1 && (_ = T2.ori == 0 ? he2 : _e2, v2 = kt(_, P3), f = V3.idx = dt(v2, i2[0], Pe2, De), b2 = C(i2[0][f], T2, p2, 0));
      let M3 = -10, E3 = -10, Y2 = 0, ie2 = 0, le2 = true, Z2 = "", W3 = "";
      for (let R2 = s2 == 2 ? 1 : 0; R2 < k2.length; R2++) {
        let ge2 = k2[R2], ve = fe2[R2], Re = ve == null ? null : s2 == 1 ? i2[R2][ve] : i2[R2][1][ve], ue2 = V3.dataIdx(n, R2, f, v2), ke2 = ue2 == null ? null : s2 == 1 ? i2[R2][ue2] : i2[R2][1][ue2];
        if (it = it || ke2 != Re || ue2 != ve, fe2[R2] = ue2, R2 > 0 && ge2.show) {
          let Je = ue2 == null ? -10 : ue2 == f ? b2 : C(s2 == 1 ? i2[0][ue2] : i2[R2][0][ue2], T2, p2, 0), Ge = ke2 == null ? -10 : I3(ke2, s2 == 1 ? x3[ge2.scale] : x3[ge2.facets[1].scale], S, 0);
          if (sl && ke2 != null) {
            let st = T2.ori == 1 ? he2 : _e2, ht = Ae(yt.dist(n, R2, ue2, Ge, st));
            if (ht < Et) {
              let xt = yt.bias;
              if (xt != 0) {
                let Ze = kt(st, ge2.scale), rt = ke2 >= 0 ? 1 : -1, mt = Ze >= 0 ? 1 : -1;
                mt == rt && (mt == 1 ? xt == 1 ? ke2 >= Ze : ke2 <= Ze : xt == 1 ? ke2 <= Ze : ke2 >= Ze) && (Et = ht, zt = R2);
              } else Et = ht, zt = R2;
            }
          }
          if (it || rl) {
            let st, ht;
            T2.ori == 0 ? (st = Je, ht = Ge) : (st = Ge, ht = Je);
            let xt, Ze, rt, mt, Tt, Ie, Qe = true, qt = Oe.bbox;
            if (qt != null) {
              Qe = false;
              let Ye = qt(n, R2);
              rt = Ye.left, mt = Ye.top, xt = Ye.width, Ze = Ye.height;
            } else rt = st, mt = ht, xt = Ze = Oe.size(n, R2);
            if (Ie = Oe.fill(n, R2), Tt = Oe.stroke(n, R2), rl) R2 == zt && Et <= yt.prox && (M3 = rt, E3 = mt, Y2 = xt, ie2 = Ze, le2 = Qe, Z2 = Ie, W3 = Tt);
            else {
              let Ye = ot[R2];
              Ye != null && (fl[R2] = rt, ul[R2] = mt, oo(Ye, xt, Ze, Qe), no(Ye, Ie, Tt), bt(Ye, ut(rt), ut(mt), K3, A3));
            }
          }
        }
      }
      if (rl) {
        let R2 = yt.prox, ge2 = Kt == null ? Et <= R2 : Et > R2 || zt != Kt;
        if (it || ge2) {
          let ve = ot[0];
          ve != null && (fl[0] = M3, ul[0] = E3, oo(ve, Y2, ie2, le2), no(ve, Z2, W3), bt(ve, ut(M3), ut(E3), K3, A3));
        }
      }
    }
    if (me.show && Vt) if (t2 != null) {
      let [_, v2] = xe2.scales, [b2, M3] = xe2.match, [E3, Y2] = t2.cursor.sync.scales, ie2 = t2.cursor.drag;
      if (Le = ie2._x, Ce = ie2._y, Le || Ce) {
        let { left: le2, top: Z2, width: W3, height: R2 } = t2.select, ge2 = t2.scales[E3].ori, ve = t2.posToVal, Re, ue2, ke2, Je, Ge, st = _ != null && b2(_, E3), ht = v2 != null && M3(v2, Y2);
        st && Le ? (ge2 == 0 ? (Re = le2, ue2 = W3) : (Re = Z2, ue2 = R2), ke2 = x3[_], Je = C(ve(Re, E3), ke2, p2, 0), Ge = C(ve(Re + ue2, E3), ke2, p2, 0), Rl(wt(Je, Ge), Ae(Ge - Je))) : Rl(0, p2), ht && Ce ? (ge2 == 1 ? (Re = le2, ue2 = W3) : (Re = Z2, ue2 = R2), ke2 = x3[v2], Je = I3(ve(Re, Y2), ke2, S, 0), Ge = I3(ve(Re + ue2, Y2), ke2, S, 0), zl(wt(Je, Ge), Ae(Ge - Je))) : zl(0, S);
      } else On();
    } else {
      let _ = Ae(Li - Pi), v2 = Ae(Ci - Di);
      if (T2.ori == 1) {
        let Y2 = _;
        _ = v2, v2 = Y2;
      }
      Le = Fe.x && _ >= Fe.dist, Ce = Fe.y && v2 >= Fe.dist;
      let b2 = Fe.uni;
      b2 != null ? Le && Ce && (Le = _ >= b2, Ce = v2 >= b2, !Le && !Ce && (v2 > _ ? Ce = true : Le = true)) : Fe.x && Fe.y && (Le || Ce) && (Le = Ce = true);
      let M3, E3;
      Le && (T2.ori == 0 ? (M3 = gl, E3 = he2) : (M3 = dl, E3 = _e2), Rl(wt(M3, E3), Ae(E3 - M3)), Ce || zl(0, S)), Ce && (T2.ori == 1 ? (M3 = gl, E3 = he2) : (M3 = dl, E3 = _e2), zl(wt(M3, E3), Ae(E3 - M3)), Le || Rl(0, p2)), !Le && !Ce && (Rl(0, 0), zl(0, 0));
    }
    if (Fe._x = Le, Fe._y = Ce, t2 == null) {
      if (r) {
        if (Ui != null) {
          let [_, v2] = xe2.scales;
          xe2.values[0] = _ != null ? kt(T2.ori == 0 ? he2 : _e2, _) : null, xe2.values[1] = v2 != null ? kt(T2.ori == 1 ? he2 : _e2, v2) : null;
        }
        Ol(In, n, he2, _e2, K3, A3, f);
      }
      if (sl) {
        let _ = r && xe2.setSeries, v2 = yt.prox;
        Kt == null ? Et <= v2 && vt(zt, Sl, true, _) : Et > v2 ? vt(null, Sl, true, _) : zt != Kt && vt(zt, Sl, true, _);
      }
    }
    it && (J3.idx = f, Rn()), l !== false && Ve("setCursor");
  }
  let Ft = null;
  Object.defineProperty(n, "rect", { get() {
    return Ft == null && Fl(false), Ft;
  } });
  function Fl(t2 = false) {
    t2 ? Ft = null : (Ft = D3.getBoundingClientRect(), Ve("syncRect", Ft));
  }
  function zi(t2, l, r, f, c, p2, S) {
    V3._lock || Vt && t2 != null && t2.movementX == 0 && t2.movementY == 0 || (zn(t2, l, r, f, c, p2, S, false, t2 != null), t2 != null ? jt(null, true, true) : jt(l, true, false));
  }
  function zn(t2, l, r, f, c, p2, S, _, v2) {
    if (Ft == null && Fl(false), Bt(t2), t2 != null) r = t2.clientX - Ft.left, f = t2.clientY - Ft.top;
    else {
      if (r < 0 || f < 0) {
        he2 = -10, _e2 = -10;
        return;
      }
      let [b2, M3] = xe2.scales, E3 = l.cursor.sync, [Y2, ie2] = E3.values, [le2, Z2] = E3.scales, [W3, R2] = xe2.match, ge2 = l.axes[0].side % 2 == 1, ve = T2.ori == 0 ? K3 : A3, Re = T2.ori == 1 ? K3 : A3, ue2 = ge2 ? p2 : c, ke2 = ge2 ? c : p2, Je = ge2 ? f : r, Ge = ge2 ? r : f;
      if (le2 != null ? r = W3(b2, le2) ? h2(Y2, x3[b2], ve, 0) : -10 : r = ve * (Je / ue2), Z2 != null ? f = R2(M3, Z2) ? h2(ie2, x3[M3], Re, 0) : -10 : f = Re * (Ge / ke2), T2.ori == 1) {
        let st = r;
        r = f, f = st;
      }
    }
    v2 && (l == null || l.cursor.event.type == In) && ((r <= 1 || r >= K3 - 1) && (r = Qt(r, K3)), (f <= 1 || f >= A3 - 1) && (f = Qt(f, A3))), _ ? (Pi = r, Di = f, [gl, dl] = V3.move(n, r, f)) : (he2 = r, _e2 = f);
  }
  const Fn = { width: 0, height: 0, left: 0, top: 0 };
  function On() {
    Xl(Fn, false);
  }
  let Fi, Oi, Hi, Ni;
  function Wi(t2, l, r, f, c, p2, S) {
    Vt = true, Le = Ce = Fe._x = Fe._y = false, zn(t2, l, r, f, c, p2, S, true, false), t2 != null && (We(Yn, Un, Gi, false), Ol(Ji, n, gl, dl, K3, A3, null));
    let { left: _, top: v2, width: b2, height: M3 } = me;
    Fi = _, Oi = v2, Hi = b2, Ni = M3;
  }
  function Gi(t2, l, r, f, c, p2, S) {
    Vt = Fe._x = Fe._y = false, zn(t2, l, r, f, c, p2, S, false, true);
    let { left: _, top: v2, width: b2, height: M3 } = me, E3 = b2 > 0 || M3 > 0, Y2 = Fi != _ || Oi != v2 || Hi != b2 || Ni != M3;
    if (E3 && Y2 && Xl(me), Fe.setScale && E3 && Y2) {
      let ie2 = _, le2 = b2, Z2 = v2, W3 = M3;
      if (T2.ori == 1 && (ie2 = v2, le2 = M3, Z2 = _, W3 = b2), Le && Rt(P3, kt(ie2, P3), kt(ie2 + le2, P3)), Ce) for (let R2 in x3) {
        let ge2 = x3[R2];
        R2 != P3 && ge2.from == null && ge2.min != ce2 && Rt(R2, kt(Z2 + W3, R2), kt(Z2, R2));
      }
      On();
    } else V3.lock && (V3._lock = !V3._lock, jt(l, true, t2 != null));
    t2 != null && (nl(Yn, Un), Ol(Yn, n, he2, _e2, K3, A3, null));
  }
  function js(t2, l, r, f, c, p2, S) {
    if (V3._lock) return;
    Bt(t2);
    let _ = Vt;
    if (Vt) {
      let v2 = true, b2 = true, M3 = 10, E3, Y2;
      T2.ori == 0 ? (E3 = Le, Y2 = Ce) : (E3 = Ce, Y2 = Le), E3 && Y2 && (v2 = he2 <= M3 || he2 >= K3 - M3, b2 = _e2 <= M3 || _e2 >= A3 - M3), E3 && v2 && (he2 = he2 < gl ? 0 : K3), Y2 && b2 && (_e2 = _e2 < dl ? 0 : A3), jt(null, true, true), Vt = false;
    }
    he2 = -10, _e2 = -10, fe2.fill(null), jt(null, true, true), _ && (Vt = _);
  }
  function Ii(t2, l, r, f, c, p2, S) {
    V3._lock || (Bt(t2), _n(), On(), t2 != null && Ol(Xi, n, he2, _e2, K3, A3, null));
  }
  function Yi() {
    H3.forEach(Bf), Sn(n.width, n.height, true);
  }
  Jt(tn, kl, Yi);
  const _l = {};
  _l.mousedown = Wi, _l.mousemove = zi, _l.mouseup = Gi, _l.dblclick = Ii, _l.setSeries = (t2, l, r, f) => {
    let c = xe2.match[2];
    r = c(n, l, r), r != -1 && vt(r, f, true, false);
  }, Ne && (We(Ji, D3, Wi), We(In, D3, zi), We(Zi, D3, (t2) => {
    Bt(t2), Fl(false);
  }), We(Qi, D3, js), We(Xi, D3, Ii), gi.add(n), n.syncRect = Fl);
  const en = n.hooks = e2.hooks || {};
  function Ve(t2, l, r) {
    Dn ? Vl.push([t2, l, r]) : t2 in en && en[t2].forEach((f) => {
      f.call(null, n, l, r);
    });
  }
  (e2.plugins || []).forEach((t2) => {
    for (let l in t2.hooks) en[l] = (en[l] || []).concat(t2.hooks[l]);
  });
  const Bi = (t2, l, r) => r, xe2 = Te({ key: null, setSeries: false, filters: { pub: So, sub: So }, scales: [P3, k2[1] ? k2[1].scale : null], match: [_o, _o, Bi], values: [null, null] }, V3.sync);
  xe2.match.length == 2 && xe2.match.push(Bi), V3.sync = xe2;
  const Ui = xe2.key, Hn = ns(Ui);
  function Ol(t2, l, r, f, c, p2, S) {
    xe2.filters.pub(t2, l, r, f, c, p2, S) && Hn.pub(t2, l, r, f, c, p2, S);
  }
  Hn.sub(n);
  function qs(t2, l, r, f, c, p2, S) {
    xe2.filters.sub(t2, l, r, f, c, p2, S) && _l[t2](null, l, r, f, c, p2, S);
  }
  n.pub = qs;
  function $s() {
    Hn.unsub(n), gi.delete(n), Nt.clear(), $n(tn, kl, Yi), g.remove(), se?.remove(), Ve("destroy");
  }
  n.destroy = $s;
  function Nn() {
    Ve("init", e2, i2), vi(i2 || e2.data, false), F3[P3] ? Ln(P3, F3[P3]) : _n(), jl = me.show && (me.width > 0 || me.height > 0), Yt = it = true, Sn(e2.width, e2.height);
  }
  return k2.forEach(_i), H3.forEach(As), o2 ? o2 instanceof HTMLElement ? (o2.appendChild(g), Nn()) : o2(n, Nn) : Nn(), n;
}
He.assign = Te, He.fmtNum = Qn, He.rangeNum = sn, He.rangeLog = on, He.rangeAsinh = Jn, He.orient = el, He.pxRatio = oe2, He.join = Rr, He.fmtDate = li, He.tzDate = Ur, He.sync = ns;
{
  He.addGap = Ef, He.clipGaps = hn;
  let e2 = He.paths = { points: cs };
  e2.linear = ps, e2.stepped = Lf, e2.bars = Cf, e2.spline = Rf;
}

// ui/chart_plot.js
var MIN_DRAG_PX = 6;
function usePlot(drawing) {
  const { xs, series, before, isStacked, isLog, height, times, marks, zoom } = drawing;
  const box = j(
    /** @type {HTMLElement | null} */
    null
  );
  const plot = j(
    /** @type {UPlot | null} */
    null
  );
  const [theme] = usePref("theme", "auto");
  const isDark = useDark();
  const data = y(() => dataOf(xs, series, isStacked, before), [xs, series, isStacked, before]);
  const newest = j(drawing);
  newest.current = drawing;
  const shape = [...series.map((one) => `${one.label}|${one.color}`), before?.label].join();
  W2(() => {
    const element = box.current;
    if (!element) return void 0;
    const made = new He(optionsOf(element, drawing, newest), data, element);
    plot.current = made;
    if (zoom) made.setScale("x", zoom);
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme, isDark, isStacked, height, isLog, times, language()]);
  W2(() => {
    plot.current?.setData(data, zoom === null);
    if (zoom) plot.current?.setScale("x", zoom);
  }, [data]);
  W2(() => plot.current?.redraw(false), [marks]);
  W2(() => {
    const [first, last] = [xs[0], xs.at(-1)];
    if (first !== void 0 && last !== void 0)
      plot.current?.setScale("x", zoom ?? { min: first, max: last });
  }, [zoom]);
  return { box, plot };
}
function useDark() {
  const [isDark, setDark] = E2(() => matchMedia("(prefers-color-scheme: dark)").matches);
  W2(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change2 = () => setDark(query.matches);
    query.addEventListener("change", change2);
    return () => query.removeEventListener("change", change2);
  }, []);
  return isDark;
}
function dataOf(xs, series, isStacked, before) {
  const earlier = before ? [before.values] : [];
  if (!isStacked) return [xs, ...series.map((one) => one.values), ...earlier];
  const sums2 = xs.map(() => 0);
  const isKnown = xs.map((_, i2) => series.some((one) => (one.values[i2] ?? null) !== null));
  const stacked = series.map(
    (one) => one.values.map((value, i2) => isKnown[i2] ? sums2[i2] = (sums2[i2] ?? 0) + (value ?? 0) : null)
  );
  return [xs, ...stacked.reverse(), ...earlier];
}
function optionsOf(element, drawing, newest) {
  const styles = getComputedStyle(element);
  const css = (name) => styles.getPropertyValue(name).trim();
  const { height, isLog, times, onRange, onPoint } = drawing;
  const logarithmic = (
    /** @type {const} */
    { distr: 3, clamp: 1e-3 }
  );
  return {
    width: element.clientWidth || 300,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: Boolean(onRange), y: false, setScale: false } },
    padding: [8, 18, 0, 0],
    scales: {
      x: { time: true },
      y: isLog ? logarithmic : { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] }
    },
    tzDate: (ts2) => times === "utc" ? He.tzDate(new Date(ts2 * 1e3), "Etc/UTC") : new Date(ts2 * 1e3),
    axes: axesOf(drawing, css),
    series: linesOf(drawing, css),
    hooks: {
      drawAxes: [(u) => drawMarks(u, newest.current.marks)],
      setCursor: [(u) => onPoint(u.cursor.idx ?? null)],
      setSelect: [(u) => openRange(u, newest.current.onRange)]
    }
  };
}
function axesOf({ times, format }, css) {
  const axis = {
    stroke: css("--muted"),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif"
  };
  return [
    { ...axis, space: 60, size: 42, values: clockIn((ms4) => instantText(ms4, times)) },
    {
      ...axis,
      size: widthOfLabels,
      ...format === durationText && { incrs: DURATION_STEPS_MS },
      values: (_, ticks) => told2(ticks.map((tick) => tick === null ? "" : format(tick)))
    }
  ];
}
function linesOf({ series, before, isStacked }, css) {
  const lines2 = (isStacked ? [...series].reverse() : series).map((one) => ({
    label: one.label,
    stroke: css(one.color),
    width: isStacked ? 1 : 2,
    ...isStacked && { fill: css(one.color) },
    points: isStacked ? { show: false } : { show: true, size: 5, filter: lonePoints }
  }));
  if (!before) return [{}, ...lines2];
  const dashed = { width: 1.5, dash: [6, 4], points: { show: false } };
  return [{}, ...lines2, { label: before.label, stroke: css("--text"), ...dashed }];
}
function openRange(plot, onRange) {
  const { left, width } = plot.select;
  if (width < MIN_DRAG_PX) return;
  const iso = (px) => new Date(plot.posToVal(px, "x") * 1e3).toISOString();
  const [from, to2] = [iso(left), iso(left + width)];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onRange?.(from, to2);
}
var clockIn = (textOf4) => (
  /**
   * @param {UPlot} _plot
   * @param {number[]} ticks Unix seconds.
   * @param {number} _axis
   * @param {number} _space
   * @param {number} stepS
   */
  (_plot, ticks, _axis, _space, stepS) => ticks.map((tick, at2) => {
    const text = textOf4(tick * 1e3);
    const day = text.slice(5, 10);
    if (stepS >= 86400) return day;
    const before = ticks[at2 - 1];
    const isNewDay = before === void 0 ? ticks.length > 1 && spansDays(ticks, textOf4) : textOf4(before * 1e3).slice(5, 10) !== day;
    return isNewDay ? `${text.slice(11, 16)}
${day}` : text.slice(11, 16);
  })
);
var spansDays = (ticks, textOf4) => textOf4((ticks[0] ?? 0) * 1e3).slice(0, 10) !== textOf4((ticks.at(-1) ?? 0) * 1e3).slice(0, 10);
function lonePoints(plot, at2) {
  const values2 = (
    /** @type {(number | null)[]} */
    plot.data[at2]
  );
  return values2.flatMap(
    (value, i2) => value !== null && (values2[i2 - 1] ?? null) === null && (values2[i2 + 1] ?? null) === null ? [i2] : []
  );
}
var DURATION_STEPS_MS = [
  ...[0.1, 1, 10, 100].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1e3),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 6e4),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 240, 480].map((hours) => hours * 36e5)
];
function widthOfLabels(_, labels) {
  return Math.max(48, 16 + 7 * Math.max(0, ...(labels ?? []).map((label) => label.length)));
}
var told2 = (labels) => labels.map((label, at2) => label === labels[at2 - 1] ? "" : label);

// ui/charts.js
var NO_MARKS = [];
function Chart({
  label,
  xs,
  series: all,
  format = (value) => number(value, { maximumFractionDigits: 2 }),
  isStacked = false,
  height = 200,
  marks = NO_MARKS,
  listsMarks = false,
  before = null,
  onRange
}) {
  const [times] = usePref("times", "relative");
  const [isLog, setLog] = E2(false);
  const [hidden, setHidden] = E2(
    /** @type {Set<string>} */
    /* @__PURE__ */ new Set()
  );
  const [zoom, setZoom] = E2(
    /** @type {import("./chart_keys.js").Zoom | null} */
    null
  );
  const [at2, setAt] = E2(
    /** @type {number | null} */
    null
  );
  const anchor = j(
    /** @type {number | null} */
    null
  );
  const series = y(() => all.filter((one) => !hidden.has(one.label)), [all, hidden]);
  const shown2 = { xs, series, before, isStacked, isLog, height, times, format, marks, zoom };
  const { box, plot } = usePlot({ ...shown2, onRange, onPoint: setAt });
  const index2 = at2 !== null && at2 < xs.length ? at2 : xs.length - 1;
  const press = (event) => {
    const done = byKey(event, { plot: plot.current, xs, at: index2, anchor, zoom, setZoom, onRange });
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const valueOf3 = (one) => {
    const v2 = one.values[index2];
    return v2 === null || v2 === void 0 ? "–" : format(v2);
  };
  const until = zoom && zoom.max < (xs.at(-1) ?? 0) ? zoom.max : Infinity;
  const visibleMarks = marksIn(marks, zoom?.min ?? xs[0], until);
  const here = marksIn(marks, xs[index2], xs[index2 + 1] ?? (xs[index2] ?? 0) + 60);
  const figures2 = series.map((one) => `${one.label}: ${valueOf3(one)}`).join(", ");
  const told4 = here.map((mark) => mark.text).join(" ");
  const instant = instantText((xs[index2] ?? 0) * 1e3, times);
  return html`<figure class="chart">
      <figcaption class="legend">
        <span class="legend-at">${xs[index2] === void 0 ? "" : instant}</span>
        <${LegendItems} all=${all} hidden=${hidden} setHidden=${setHidden} before=${before} valueOf=${valueOf3} />
        ${!isStacked && html`<button type="button" class="link" aria-pressed=${String(isLog)} onClick=${() => setLog(!isLog)}>${t("chart.log")}</button>`}
        ${zoom && html`<button type="button" class="link" onClick=${() => setZoom(null)}>${t("chart.whole")}</button>`}
        ${at2 !== null && told4 && html`<span class="legend-mark">${told4}</span>`}
        ${onRange && html`<span class="muted small wide-only chart-drag">${t("chart.drag")}</span>`}
      </figcaption>
      <div
        class="plot" ref=${box} tabindex="0" role="img" title=${t("chart.keys")} onKeyDown=${press}
        aria-label=${`${label}. ${instant} ${figures2}${told4 && `. ${told4}`}`}></div>
      ${listsMarks && html`<${MarkList} marks=${visibleMarks} timeOf=${minuteText} more=${href("incidents")} />`}
    </figure>`;
}
function LegendItems({ all, hidden, setHidden, before, valueOf: valueOf3 }) {
  const toggle = (name) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    if (next.size < all.length) setHidden(next);
  };
  return html`${all.map(
    (one) => html`<button
          type="button" key=${one.label} class="legend-item" aria-pressed=${String(!hidden.has(one.label))}
          onClick=${() => toggle(one.label)}>
          <i style=${{ background: `var(${one.color})` }} aria-hidden="true"></i>
          ${one.label} <b class="num">${valueOf3(one)}</b>
        </button>`
  )}
  ${before && html`<span class="legend-item"><i class="dashed" aria-hidden="true"></i>${before.label} <b class="num">${valueOf3(before)}</b></span>`}`;
}

// operations/mark_filter.js
var globOf = (pattern) => pattern.includes("[") ? null : new RegExp(
  `^${pattern.replace(/[.+^${}()|\\\]]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`,
  "s"
);
function selects(matcher, name) {
  if ("all" in matcher || "any" in matcher) {
    const [parts, decisive] = "all" in matcher ? [matcher.all, false] : [matcher.any, true];
    const found = parts.map((part) => selects(part, name));
    if (found.includes(decisive)) return decisive;
    return found.includes(null) ? null : !decisive;
  }
  if ("not" in matcher) {
    const found = selects(matcher.not, name);
    return found === null ? null : !found;
  }
  if (matcher.field !== "name") return null;
  const { op, value } = matcher;
  switch (op) {
    case "eq":
      return value === name;
    case "ne":
      return value !== name;
    case "in":
      return Array.isArray(value) ? value.includes(name) : null;
    case "glob":
      return typeof value === "string" ? globOf(value)?.test(name) ?? null : null;
    default:
      return null;
  }
}
function isAbout(mark, name) {
  switch (mark.kind) {
    case "deploy": {
      const names = (mark.entry?.label ?? "").split(", ");
      return names.includes(name) || names.some((one) => one.startsWith("+"));
    }
    case "pause":
    case "resume":
    case "constraint":
      return mark.matcher === null || selects(mark.matcher, name) !== false;
    case "leader":
    case "incident":
    case "settings":
      return true;
    default:
      return false;
  }
}

// operations/mark_words.js
var authorText = (by) => by ? visible(whoText(by)) : t("mark.somebody");
function entryText(entry2) {
  const kind = entry2.kind === "leader_changed" ? `leader_changed.${entry2.cause || "ended"}` : entry2.kind;
  const key = `incident.entry.${kind}`;
  if (!tOr(key, "")) return visible(entry2.text);
  return t(key, {
    subject: visible(entry2.subject),
    label: visible(entry2.label),
    before: visible(entry2.before || "–"),
    who: authorText(entry2.by),
    count: entry2.count,
    duration: durationText(steadyMs(Math.max(1e3, Date.parse(entry2.at) - Date.parse(entry2.since))))
  });
}
function entryLink({ kind, subject, label }) {
  switch (kind) {
    case "worker_lost":
    case "worker_back":
    case "jobs_returned":
      return { link: href("workers", { id: subject }), act: t("workers.one") };
    case "leader_changed":
      return { link: href("masters"), act: t("nav.masters") };
    case "backlog_old":
      return label ? { link: href("job", { id: label }), act: t("nav.job") } : null;
    case "version_new":
      return { link: href("workers", { group: "version" }), act: t("nav.workers") };
    default:
      return null;
  }
}
function incidentTitle({ entries }) {
  const kinds = [...new Set(entries.map((entry2) => entry2.kind))];
  return kinds.map((kind) => tOr(`incident.title.${kind}`, "")).filter(Boolean).join(t("incident.arrow"));
}
function markText(mark) {
  if (mark.entry) return entryText(mark.entry);
  const isPause2 = mark.kind === "pause" || mark.kind === "resume";
  const key = `mark.${isPause2 ? mark.kind : mark.action || mark.kind}`;
  if (!tOr(key, "")) return visible(mark.text);
  const how = mark.is_new ? `${key}.new` : mark.changed.length > 0 ? `${key}.of` : "";
  const text = t(how && tOr(how, "") ? how : key, {
    what: visible(mark.changed.map(keyWords).join(", ")),
    subject: isPause2 && mark.matcher ? pausedText(mark.matcher) : visible(mark.name ?? shortId(mark.subject)),
    who: authorText(mark.by)
  });
  return mark.reason ? `${text} “${visible(mark.reason).slice(0, 200)}”` : text;
}
function markLink({ kind, subject, entry: entry2, incident_id }) {
  if (incident_id) return href("incidents", { id: incident_id });
  if (entry2) return entryLink(entry2)?.link ?? null;
  switch (kind) {
    case "pause":
    case "resume":
    case "constraint":
      return href("constraints", { name: subject });
    case "definition":
      return href("definitions", { name: subject });
    case "worker":
      return href("workers", { id: subject });
    case "settings":
      return href("settings");
    case "acknowledged":
      return href("notices", { name: subject });
    default:
      return null;
  }
}

// operations/marks.js
var MIN_MS = 1e4;
var POLL_MS4 = 3e4;
function useMarks(since, name = "") {
  const { data } = useResource(
    (signal) => since ? get("api/marks", { since }, signal) : Promise.resolve(null),
    [since === void 0],
    { events: ["constraints", "masters", "workers"], leastMs: MIN_MS, pollMs: POLL_MS4 }
  );
  return y(
    () => (data?.marks ?? []).filter((mark) => !name || isAbout(mark, name)).map((mark) => ({
      atMs: Date.parse(mark.at),
      untilMs: mark.until ? Date.parse(mark.until) : null,
      kind: mark.kind,
      label: tOr(`mark.kind.${mark.kind}`, visible(mark.kind)),
      text: markText(mark),
      link: markLink(mark)
    })),
    [data, name]
  );
}

// ui/points.js
var COUNTED = ["succeeded", "discarded", "failed", "canceled", "skipped", "retried"];
var completePoints = ({ points, step_s }) => points.filter((point, at2) => at2 < points.length - 1 || Date.parse(point.at) + step_s * 1e3 <= nowMs());
function ratesOf(points, stepS) {
  const first = points.findIndex(
    (point) => point.backlog !== null || COUNTED.some((key) => (point[key] ?? 0) > 0)
  );
  return (key) => points.map((point, at2) => first < 0 || at2 < first ? null : (point[key] ?? 0) / stepS);
}

// operations/course.js
function Course({ history: history2, earlier, compared }) {
  const marks = useMarks(history2.points[0]?.at);
  const { xs, outcomes, bad, waits, backlog } = y(() => {
    const points = completePoints(history2);
    const perS = ratesOf(points, history2.step_s);
    return {
      xs: points.map((point) => Date.parse(point.at) / 1e3),
      outcomes: OUTCOMES.map((key) => ({ label: t(`state.${key}`), color: `--${key}`, values: perS(key) })),
      bad: [
        { label: t("state.failed"), color: "--failed", values: perS("failed") },
        { label: t("overview.retried"), color: "--retrying", values: perS("retried") }
      ],
      backlog: [
        { label: t("overview.backlog"), color: "--ready", values: points.map((point) => point.backlog) }
      ],
      waits: [
        {
          label: t("overview.wait_p95"),
          color: "--retrying",
          values: points.map((point) => point.wait?.p95_ms ?? null)
        },
        {
          label: t("overview.run_p95"),
          color: "--running",
          values: points.map((point) => point.run?.p95_ms ?? null)
        }
      ]
    };
  }, [history2]);
  const before = y(() => {
    const by = (valueOf3) => comparedWith(earlier, compared, xs, valueOf3);
    return {
      outcomes: by(endsPerS),
      bad: by((point, stepS) => point.failed / stepS),
      backlog: by((point) => point.backlog),
      waits: by((point) => point.wait?.p95_ms ?? null)
    };
  }, [earlier, compared, xs]);
  return html`<${Chart}
      label=${t("overview.throughput")} xs=${xs} series=${outcomes} before=${before.outcomes} marks=${marks}
      listsMarks isStacked
      onRange=${(from, to2) => go("jobs", { finished_after: from, finished_before: to2 })}
      height=${210} format=${perSText} />
    <h3>${t("overview.failures")}</h3>
    <${Chart}
      label=${t("overview.failures")} xs=${xs} series=${bad} before=${before.bad} marks=${marks} height=${110}
      onRange=${(from, to2) => go("jobs", { state: "failed", finished_after: from, finished_before: to2 })}
      format=${perSText} />
    <div class="charts">
      <div>
        <h3>${t("overview.backlog")}</h3>
        <${Chart}
          label=${t("overview.backlog")} xs=${xs} series=${backlog} before=${before.backlog} marks=${marks}
          height=${140} />
      </div>
      <div>
        <h3>${t("overview.times")}</h3>
        <${Chart}
          label=${t("overview.times")} xs=${xs} series=${waits} before=${before.waits} marks=${marks}
          height=${140} format=${durationText} />
      </div>
    </div>`;
}

// operations/cards.js
var UNUSUAL = (
  /** @type {const} */
  ["stale", "draining", "detached"]
);
function Workers({ stats }) {
  const { workers } = stats;
  return html`<section class="card" aria-labelledby="workers">
      <h2 id="workers"><a href=${href("workers")}>${t("nav.workers")}</a></h2>
      <p class="glance">
        <b><${Num} value=${workers.fresh} /></b> ${t("worker.fresh")}
        ${UNUSUAL.filter((state) => workers[state] > 0).map(
    (state) => html` <${Badge} kind=${state === "draining" ? "info" : "warn"}>${number(workers[state])} ${t(`worker.${state}`)}<//>`
  )}
      </p>
      <p>${t("overview.slots", { busy: workers.busy, all: workers.max_jobs })}</p>
      <${Bar}
        value=${workers.busy} of=${workers.max_jobs} label=${t("overview.slots.label")}
        kind=${workers.max_jobs > 0 && workers.busy >= workers.max_jobs ? "warn" : "info"} />
      ${workers.fresh === 0 && html`<p class="muted">${t("overview.no_worker")}</p>`}
    </section>`;
}
function Masters({ stats, masters }) {
  return html`<section class="card" aria-labelledby="masters">
      <h2 id="masters"><a href=${href("masters")}>${t("nav.masters")}</a></h2>
      <p class="glance">
        <b><${Num} value=${stats.masters.fresh} /></b> ${t("master.fresh")} ${stats.masters.stale > 0 && html`<${Badge} kind="warn">${number(stats.masters.stale)} ${t("master.stale")}<//>`}
        ${stats.masters.leader_id === null && html`<${Badge} kind="bad">${t("master.no_leader")}<//>`}
      </p>
      <ul class="plain">
        ${masters.slice(0, 6).map(
    (master) => html`<li key=${master.id}>
                  <${Badge}
                    kind=${master.state === "stale" ? "warn" : master.role === "leader" ? "ok" : "off"}>
                    ${master.state === "stale" ? t("master.stale") : tOr(`master.${master.role}`, visible(master.role))}
                  <//> <${Text} value=${master.node_id} max=${60} /> <span class="muted">
                    ${visible(master.version)} · ${t("master.pid", { pid: String(master.pid) })}
                  </span>
                </li>`
  )}
      </ul>
    </section>`;
}
function Store({ store, findings }) {
  return html`<section class="card" aria-labelledby="store">
      <h2 id="store">${t("overview.store")}</h2>
      <dl class="facts">
        <dt>${t("store.health")}</dt>
        <dd>
          ${store.faults.length ? html`<${Badge} kind="bad">${t("store.faults", { count: store.faults.length })}<//>` : html`<${Badge} kind="ok">${t("store.well")}<//>`}
        </dd>
        <dt>${t("store.server")}</dt><dd><${Text} value=${store.server} max=${80} /></dd>
        <dt>${t("store.durability")}</dt>
        <dd>
          ${visible(store.durability)} ${worst(findings, "durability") && html`<${Badge} kind="bad">${t("store.gives", { given: visible(store.durability_available) })}<//>`}
          <span class="hint-line">${tOr(`durability.${store.durability}`, "")}</span>
        </dd>
        <dt>${t("store.memory")}</dt>
        <dd>
          <${Bytes} value=${store.used_memory_bytes} />
          ${store.max_memory_bytes ? html` / <${Bytes} value=${store.max_memory_bytes} /> <${Bar}
                  value=${store.used_memory_bytes} of=${store.max_memory_bytes} label=${t("store.memory")}
                  kind=${worst(findings, "memory") || "info"} />` : ""}
        </dd>
        <dt>${t("store.latency")}</dt><dd><${Duration} ms=${store.latency_ms} /></dd>
      </dl>
    </section>`;
}

// operations/pages/overview.js
var SPANS = ["1h", "6h", "24h", "7d"];
var PATIENCE_MS2 = 1500;
var ALL = {};
function Page({ query, session: session2 }) {
  const span = SPANS.find((one) => one === query["span"]) ?? "1h";
  const asked = useResource((signal) => pushedOr("stats", () => get("api/stats", {}, signal)), []);
  const pushed = useLatest("stats");
  const stats = newer(pushed, asked.data);
  W2(() => {
    if (stats) tellTime(stats.at);
  }, [stats?.at]);
  const compared = comparedPeriod(query["compare"], span);
  const earlier = useEarlier(compared, span);
  const history2 = useResource((signal) => get("api/stats/history", { span }, signal), [span], {
    events: ["stats"],
    leastMs: span === "1h" ? 1e4 : 6e4,
    everyMs: 3e4
  });
  const names = useResource(
    (signal) => get("api/names", { span: "1h", sort: "failed", limit: 5 }, signal),
    [],
    { events: ["jobs"], leastMs: 1e4, everyMs: 3e4 }
  );
  const masters = useResource((signal) => get("api/masters", {}, signal), [], {
    events: ["masters"],
    leastMs: 2e3,
    everyMs: 15e3
  });
  const health = useHealth();
  const sources = [names, masters, history2, health];
  const wasAnswered = j(false);
  wasAnswered.current ||= sources.every((one) => one.data !== null || one.problem !== null);
  const isLate = useIsLate();
  if (!stats || !(wasAnswered.current || isLate))
    return html`<h1>${t("nav.overview")}</h1><${ErrorBox} problem=${asked.problem} onRetry=${asked.reload} />${!asked.problem && html`<${Loading} />`}`;
  const { findings } = health;
  const total = Object.values(stats.counts).reduce((sum2, n) => sum2 + Number(n), 0);
  return html`<div class="page-head"><h1>${t("nav.overview")}</h1></div>
    <${HealthLine} verdict=${health.data} findings=${findings} />
    <${Faults}
      findings=${findings} isAnswered=${health.data !== null} isKnown=${health.isKnown}
      problem=${asked.problem ?? health.problem} />
    ${total === 0 && html`<${First} session=${session2} />`}
    <${Tiles} stats=${stats} findings=${findings} />
    ${(stats.counts["ready"] ?? 0) > 0 ? html`<${BacklogWhy} whose=${ALL} />` : html`<p class="backlog-why" aria-hidden="true">${" "}</p>`}
    <${Throughput} history=${history2} span=${span} compared=${compared} earlier=${earlier} />
    <div class="cards after">
      <${Workers} stats=${stats} />
      <${Masters} stats=${stats} masters=${masters.data?.masters ?? []} />
      <${Store} store=${stats.store} findings=${findings} />
    </div>
    ${(names.data?.names ?? []).some((name) => name.failed > 0) && html`<div><h2>${t("overview.failing")}</h2><${Failing} names=${names.data?.names ?? []} /></div>`}`;
}
function newer(a2, b2) {
  if (!a2 || !b2) return a2 ?? b2;
  return Date.parse(a2.at) >= Date.parse(b2.at) ? a2 : b2;
}
function useIsLate() {
  const [isLate, setLate] = E2(false);
  W2(() => {
    const timer2 = setTimeout(() => setLate(true), PATIENCE_MS2);
    return () => clearTimeout(timer2);
  }, []);
  return isLate;
}
function Throughput({ history: history2, span, compared, earlier }) {
  return html`<section class="card" aria-labelledby="throughput" aria-busy=${String(!history2.data && !history2.problem)}>
      <div class="page-head">
        <h2 id="throughput">${t("overview.throughput")}</h2>
        <nav class="spans" aria-label=${t("overview.span")}>
          ${SPANS.map(
    (one) => html`<a
                  key=${one} class="chip-link"
                  href=${href("overview", { span: one === "1h" ? "" : one, compare: compared })}
                  aria-current=${one === span ? "true" : void 0}>
                  ${one}
                </a>`
  )}
        </nav>
        <${CompareWith}
          word=${compared} span=${span} link=${(word) => href("overview", { span: span === "1h" ? "" : span, compare: word })} />
      </div>
      <${ErrorBox} problem=${history2.problem} onRetry=${history2.reload} />
      ${history2.data ? html`<${Course} history=${history2.data} earlier=${earlier} compared=${compared} />` : !history2.problem && html`<div class="charts-room"></div>`}
    </section>`;
}
function Failing({ names }) {
  const failed = names.filter((name) => name.failed > 0);
  return html`<${Table} caption=${t("overview.failing")} rows=${failed} rowKey=${(name) => name.name} columns=${[
    {
      key: "name",
      label: t("job.name"),
      render: (name) => html`<a href=${href("failures", { name: name.name })}><${Text} value=${name.name} max=${80} /></a>`
    },
    {
      key: "failed",
      label: t("state.failed"),
      align: "end",
      render: (name) => html`<${Num} value=${name.failed} />`
    },
    {
      key: "share",
      label: t("overview.failed_share"),
      align: "end",
      render: (name) => name.success_share === null ? "–" : html`<span class="num">${percent(1 - name.success_share)}</span>`
    },
    {
      key: "succeeded",
      label: t("state.succeeded"),
      align: "end",
      priority: 2,
      render: (name) => html`<${Num} value=${name.succeeded} />`
    },
    {
      key: "retried",
      label: t("overview.retried"),
      align: "end",
      priority: 2,
      render: (name) => html`<${Num} value=${name.retried} />`
    },
    {
      key: "ready",
      label: t("state.ready"),
      align: "end",
      priority: 2,
      render: (name) => html`<${Num} value=${name.ready} />`
    }
  ]} />`;
}
function First({ session: session2 }) {
  const call2 = curl(session2, "POST", "api/jobs", {
    body: { name: "hello", argument: { to: "world" } }
  });
  return html`<div class="card">
      <${Empty} title=${t("jobs.empty.first")} curl=${call2}>
        ${may(session2, "push") && html`<p><a href=${href("enqueue")}>${t("jobs.empty.form")}</a></p>`}
      <//>
    </div>`;
}

// ui/progress.js
var ASK_MS = 2e3;
function Progress({ progress }) {
  const { fraction, message } = progress;
  const text = message ? visible(message) : "";
  const share = fraction === null ? null : `${Math.floor(fraction * 100)} %`;
  return html`<span class="progress">
      ${share !== null && html`<progress max="1" value=${fraction} aria-label=${t("job.progress")}>${share}</progress> <span class="num">${share}</span> `}
      ${text && html`<bdi class="muted" title=${text}>${text}</bdi>`}
    </span>`;
}
function useProgress(jobs, isHeld, reload) {
  const isMoving = !isHeld && jobs.some((job) => job.state === "running");
  const newest = j(reload);
  newest.current = reload;
  W2(() => {
    if (!isMoving) return void 0;
    const timer2 = setInterval(() => {
      if (!document.hidden) newest.current();
    }, ASK_MS);
    return () => clearInterval(timer2);
  }, [isMoving]);
}

// workers/figures.js
function Marks({ figures: figures2 }) {
  return html`${(figures2?.marks ?? []).map(
    (mark) => html` <span title=${tOr(`workers.mark.${mark}.rule`, "")}>
          <${Badge} kind=${mark === "slow" ? "warn" : "bad"}>${tOr(`workers.mark.${mark}`, visible(mark))}<//>
        </span>`
  )}`;
}
function Failed({ figures: figures2 }) {
  if (!figures2 || figures2.failed_share === null) return html`<${Num} value=${null} />`;
  const share = number(figures2.failed_share, { style: "percent", maximumFractionDigits: 1 });
  return html`<span class="num" title=${t("workers.failed.title")}>${number(figures2.failed)}${figures2.failed > 0 && ` (${share})`}</span>`;
}
var figureColumns = () => [
  {
    key: "rate",
    label: t("workers.rate"),
    align: "end",
    sort: "rate",
    width: 6.2,
    priority: 2,
    render: (row) => html`<${Num} value=${row.figures?.attempts_per_s} digits=${1} />`
  },
  {
    key: "p50",
    label: t("workers.p50"),
    align: "end",
    sort: "p50",
    width: 5,
    priority: 2,
    render: (row) => html`<${Duration} ms=${row.figures?.run?.p50_ms} />`
  },
  {
    key: "p99",
    label: t("workers.p99"),
    align: "end",
    sort: "p99",
    width: 5,
    priority: 2,
    render: (row) => html`<${Duration} ms=${row.figures?.run?.p99_ms} />`
  },
  {
    key: "failed_share",
    label: t("state.failed"),
    align: "end",
    sort: "failed",
    width: 6.8,
    phone: "line",
    render: (row) => html`<${Failed} figures=${row.figures} />`
  },
  {
    key: "marks",
    label: t("workers.marks"),
    priority: 2,
    render: (row) => html`<${Marks} figures=${row.figures} />`
  }
];
var NUMBERS2 = {
  rate: (row) => row.figures?.attempts_per_s ?? -1,
  p50: (row) => row.figures?.run?.p50_ms ?? -1,
  p99: (row) => row.figures?.run?.p99_ms ?? -1,
  failed: (row) => row.figures?.failed_share ?? -1
};
var SORTS = Object.keys(NUMBERS2);
function sortedByFigures(rows, sort) {
  const of2 = NUMBERS2[sort];
  return of2 ? [...rows].sort((a2, b2) => of2(b2) - of2(a2)) : rows;
}
function FigureFacts({ figures: figures2 }) {
  if (!figures2) return null;
  return html`<section class="card"><h2>${t("workers.figures")}<${Marks} figures=${figures2} /></h2><dl class="facts">
    <dt>${t("workers.rate")}</dt><dd><${Num} value=${figures2.attempts_per_s} digits=${2} /></dd>
    <dt>${t("workers.p50")}</dt><dd><${Duration} ms=${figures2.run?.p50_ms} /></dd>
    <dt>${t("workers.p99")}</dt><dd><${Duration} ms=${figures2.run?.p99_ms} /></dd>
    <dt>${t("workers.longest")}</dt><dd><${Duration} ms=${figures2.run?.max_ms} /></dd>
    <dt>${t("state.succeeded")}</dt><dd><${Num} value=${figures2.succeeded} /></dd>
    <dt>${t("workers.failed")}</dt><dd><${Failed} figures=${figures2} /></dd></dl>
    <p class="muted after">${t("workers.figures.text")}</p>
    ${figures2.marks.map((mark) => html`<p class="muted">${tOr(`workers.mark.${mark}.rule`, "")}</p>`)}</section>`;
}

// workers/states.js
var KINDS3 = { fresh: "ok", stale: "warn", draining: "info", detached: "bad" };
var BREAKERS = { closed: "ok", half_open: "warn", open: "bad" };
var POLL_MS5 = 2e3;
var ORDER = (
  /** @type {const} */
  ["stale", "detached", "draining", "fresh"]
);
function WorkerState({ worker }) {
  return html`<${StateBadge} state=${worker.state} />
    ${worker.detached_by && html` <span class="muted">${tOr(`workers.by.${worker.detached_by}`, visible(worker.detached_by))}</span>`}`;
}
var StateBadge = ({ state }) => html`<${Badge} kind=${KINDS3[state] ?? "off"}>${tOr(`worker.${state}`, visible(state))}<//>`;
function RowState({ worker }) {
  const { detached_by: by, breaker } = worker;
  const isBroken = breaker === "open" || breaker === "half_open";
  return html`<${StateBadge} state=${worker.state} />
    ${by && html` <span class="muted wide-only" title=${tOr(`workers.by.${by}`, visible(by))}>${tOr(`workers.by.${by}.short`, visible(by))}</span>`}
    ${isBroken && worker.state !== "detached" && html` <span title=${`${t("workers.breaker")}: ${t(`workers.breaker.${breaker}`)}`}>
          <${Badge} kind=${BREAKERS[
    /** @type {"open"} */
    breaker
  ]}>
            ${t(`workers.breaker.${breaker}.short`)}
          <//>
        </span>`}
    <span class="wide-only"><${Marks} figures=${worker.figures} /></span>`;
}
function Breaker({ breaker }) {
  if (breaker === null) return html`<span class="muted" title=${t("workers.breaker.unknown")}>–</span>`;
  return html`<${Badge} kind=${BREAKERS[breaker] ?? "off"}>${tOr(`workers.breaker.${breaker}`, visible(breaker))}<//>`;
}
function Slots({ worker }) {
  return html`<span class="slots">
      <span class="num">${number(worker.busy)} / ${number(worker.max_jobs)}</span> <${Bar}
        value=${worker.busy} of=${worker.max_jobs} label=${t("workers.slots")}
        kind=${worker.busy >= worker.max_jobs ? "warn" : "info"} />
    </span>`;
}
var nameOf = (worker) => `${worker.node_id || "–"}${worker.pid ? `:${worker.pid}` : ""}`;

// workers/worker_link.js
var MAX_ASKED = 8;
function WorkerLink({ id, name }) {
  const address = href("workers", { id });
  return name ? html`<a href=${address} title=${visible(`${name} · ${id}`)}>${visible(name)}</a>` : html`<${Id} id=${id} href=${address} />`;
}
function useWorkerNames(ids) {
  const asked = [...new Set(ids)].slice(0, MAX_ASKED);
  const { data } = useResource(
    (signal) => Promise.all(asked.map((id) => entryOf(id, signal))),
    [asked.join()],
    {
      everyMs: 6e4
    }
  );
  return new Map(data ?? []);
}
async function entryOf(id, signal) {
  try {
    const worker = await get(`api/workers/${encodeURIComponent(id)}`, {}, signal);
    return [id, worker.node_id ? nameOf(worker) : ""];
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return [id, ""];
  }
}

// jobs/columns.js
var TIMES = ["created", "run_at", "started", "finished"];
var TIME_REM = 7.4;
var DATE_REM = 11.2;
var SECOND_LINE = ["state", "error", "argument", "progress"];
function retriesText({ failures: failures2, max_retry: most, state, cause }) {
  if (most === 0) return t("job.no_retries");
  const retried = state === "failed" && cause !== "lost" ? failures2 - 1 : failures2;
  return t("job.failures_of", { used: Math.max(0, Math.min(retried, most)), most });
}
var ENDED = ["name", "argument", "finished", "duration", "worker"];
var DEFAULTS = {
  "": ["state", "name", "argument", "error", "created", "finished", "duration", "worker"],
  ready: ["name", "argument", "priority", "attempt", "created"],
  running: ["name", "argument", "progress", "attempt", "started", "duration", "worker"],
  awaiting_callback: ["name", "argument", "attempt", "started", "run_at"],
  awaiting_jobs: ["name", "argument", "priority", "created"],
  scheduled: ["name", "argument", "run_at", "created"],
  retrying: ["name", "error", "attempt", "run_at", "worker"],
  failed: ["name", "error", "argument", "attempt", "finished", "duration", "worker"]
};
function orderedBy(state) {
  if (state === "") return "";
  if (isIn(state, "finished")) return "finished";
  return { running: "started", scheduled: "run_at", retrying: "run_at", awaiting_callback: "run_at" }[state] ?? "created";
}
var ms2 = (at2) => at2 ? Date.parse(at2) : 0;
function ranMs(job) {
  if (!job.started_at) return -1;
  if (job.finished_at) return Math.max(0, ms2(job.finished_at) - ms2(job.started_at));
  return job.state === "running" ? Math.max(0, nowMs() - ms2(job.started_at)) : -1;
}
var ALL2 = [
  {
    key: "state",
    label: "job.state",
    width: 7.2,
    by: (job) => job.state,
    render: (job) => html`<${State} state=${job.state} />`
  },
  {
    key: "name",
    label: "job.name",
    by: (job) => job.name,
    render: (job) => html`<a href=${href("job", { id: job.id })} title=${visible(job.name)}>${visible(job.name)}</a>
        ${job.tags.slice(0, 4).map(
      (tag) => html` <a class="chip" href=${href("jobs", { tag })}><${Text} value=${tag} max=${30} /></a>`
    )}`
  },
  {
    key: "error",
    label: "job.error",
    include: "error",
    by: (job) => job.error ?? "",
    render: (job) => html`<${Line} text=${job.error} />`
  },
  {
    key: "argument",
    label: "job.argument",
    include: "argument",
    priority: 2,
    by: (job) => job.argument_excerpt ?? "",
    render: (job) => html`<${Line} text=${job.argument_excerpt} isCode />`
  },
  {
    key: "progress",
    label: "job.progress",
    include: "progress",
    width: 9,
    by: (job) => job.progress?.fraction ?? -1,
    render: (job) => job.progress && job.state !== "succeeded" ? html`<${Progress} progress=${job.progress} />` : html`<${Num} value=${null} />`
  },
  {
    key: "id",
    label: "job.id",
    width: 8,
    priority: 3,
    by: (job) => job.id,
    render: (job) => html`<${Id} id=${job.id} />`
  },
  {
    key: "priority",
    label: "job.priority",
    align: "end",
    width: 5.5,
    priority: 3,
    by: (job) => job.priority,
    render: (job) => html`<${Num} value=${job.priority} />`
  },
  {
    key: "attempt",
    label: "job.attempt",
    align: "end",
    width: 5.4,
    priority: 2,
    by: (job) => job.attempt,
    render: (job) => html`<span class="num" title=${retriesText(job)}>${job.attempt}${job.failures > 0 && html` <span class="fails">✗${job.failures}</span>`}</span>`
  },
  {
    key: "created",
    label: "job.created",
    align: "end",
    by: (job) => ms2(job.created_at),
    render: (job) => html`<${Time} at=${job.created_at} />`
  },
  {
    key: "run_at",
    label: "job.due",
    align: "end",
    by: (job) => ms2(job.run_at),
    render: (job) => html`<${Time} at=${job.run_at} />`
  },
  {
    key: "started",
    label: "job.started",
    align: "end",
    priority: 3,
    by: (job) => ms2(job.started_at),
    render: (job) => html`<${Time} at=${job.started_at} />`
  },
  {
    key: "finished",
    label: "job.finished",
    align: "end",
    priority: 2,
    by: (job) => ms2(job.finished_at),
    render: (job) => html`<${Time} at=${job.finished_at} />`
  },
  {
    key: "duration",
    label: "job.duration",
    align: "end",
    width: 5.6,
    priority: 2,
    by: ranMs,
    render: (job) => html`<${Ran} job=${job} />`
  },
  {
    key: "worker",
    label: "job.worker",
    include: "worker",
    width: 8.5,
    priority: 4,
    by: (job) => job.worker_name ?? job.worker_id ?? "",
    render: (job) => job.worker_id ? html`<${WorkerLink} id=${job.worker_id} name=${job.worker_name} />` : html`<${Num} value=${null} />`
  },
  {
    key: "cause",
    label: "job.cause",
    width: 6.5,
    priority: 2,
    by: (job) => job.cause ?? "",
    render: (job) => job.cause ? tOr(`cause.${job.cause}`, visible(job.cause)) : html`<${Num} value=${null} />`
  },
  {
    key: "timeout",
    label: "job.timeout",
    align: "end",
    width: 6.5,
    priority: 3,
    by: (job) => job.timeout,
    render: (job) => html`<${Duration} ms=${job.timeout * 1e3} />`
  }
];
var KEYS = ALL2.map((column) => column.key);
function Line({ text, isCode = false }) {
  if (!text) return html`<${Num} value=${null} />`;
  const shown2 = visible(text);
  return html`<bdi class=${isCode ? "line code-line" : "line"} title=${shown2}>${shown2}</bdi>`;
}
function Ran({ job }) {
  useTick();
  const ran = ranMs(job);
  if (ran < 0) return html`<${Num} value=${null} />`;
  return html`<${Duration} ms=${job.finished_at ? ran : Math.floor(ran / 1e3) * 1e3} />`;
}
function useJobColumns(state, asked) {
  const [chosen] = usePref("columns", null);
  const [times] = usePref("times", "relative");
  const keys = asked ? asked.split(",") : Array.isArray(chosen) ? chosen : DEFAULTS[state] ?? (isIn(state, "finished") ? ENDED : DEFAULTS[""] ?? ENDED);
  return columnsOf(keys, times).map((column) => ({ ...column, isDefault: !asked && !Array.isArray(chosen) }));
}
function columnsOf(keys, times) {
  const columns3 = ALL2.filter((column) => keys.includes(column.key));
  return (columns3.length ? columns3 : ALL2.slice(0, 2)).map((column) => ({
    ...column,
    label: t(
      /** @type {string} */
      column.label
    ),
    ...TIMES.includes(column.key) && { width: times === "relative" ? TIME_REM : DATE_REM }
  }));
}
var OF_MEMBERS = ["state", "name", "argument", "error", "cause", "attempt", "created", "finished"];
var MEMBERS_INCLUDE = "argument,error";
function useMemberColumns(jobs) {
  const [times] = usePref("times", "relative");
  const has = { error: jobs.some((job) => job.error), cause: jobs.some((job) => job.cause && !job.error) };
  const columns3 = columnsOf(OF_MEMBERS, times).filter(
    ({ key }) => (key !== "error" || has.error) && (key !== "cause" || has.cause)
  );
  return placed(
    columns3.map((column) => ({ ...column, isDefault: true })),
    "finished"
  );
}
function useErrorColumn(columns3, rows, of2) {
  const seen = j(
    /** @type {string | null} */
    null
  );
  if (rows.some((job) => job.error)) seen.current = of2;
  return columns3.filter((column) => column.key !== "error" || !column.isDefault || seen.current === of2);
}
function placed(columns3, by) {
  const has = (key) => columns3.some((column) => column.key === key);
  const isLeftOut2 = (key) => key === "argument" && (has("state") || has("error") || has("progress"));
  return columns3.map(({ phone: _, ...column }) => {
    if (column.key === "name") return { ...column, phone: (
      /** @type {const} */
      "main"
    ) };
    if (column.key === by) return { ...column, phone: (
      /** @type {const} */
      "side"
    ) };
    const isShown = column.isDefault ? SECOND_LINE.includes(column.key) && !isLeftOut2(column.key) : true;
    return isShown ? { ...column, phone: (
      /** @type {const} */
      "line"
    ) } : column;
  });
}
var includeOf = (columns3) => columns3.flatMap((column) => column.include ?? []).join(",");
function chosenColumns() {
  const chosen = pref("columns", null);
  return Array.isArray(chosen) ? chosen.join(",") : void 0;
}
function ColumnsDialog({ columns: columns3, onClose }) {
  const chosen = columns3.map((column) => column.key);
  const [density, setDensity] = usePref("density", "normal");
  const toggle = (key) => {
    const next = KEYS.filter((one) => one === key ? !chosen.includes(key) : chosen.includes(one));
    if (next.length) setPref("columns", next);
  };
  return html`<${Dialog} title=${t("columns")} onClose=${onClose}>
      <ul class="plain">
        ${ALL2.map(
    (column) => html`<li key=${column.key}>
                <label class="check">
                  <input
                    type="checkbox" checked=${chosen.includes(column.key)}
                    onChange=${() => toggle(column.key)} /> ${t(
      /** @type {string} */
      column.label
    )}
                </label>
              </li>`
  )}
      </ul>
      <label class="check">
        <input
          type="checkbox" checked=${density === "compact"}
          onChange=${() => setDensity(density === "compact" ? null : "compact")} /> ${t("columns.compact")}
      </label>
      <footer>
        <${Button} onClick=${() => setPref("columns", null)}>${t("columns.reset")}<//>
        <${Button} kind="primary" onClick=${onClose}>${t("close")}<//>
      </footer>
    <//>`;
}

// jobs/export.js
var MOST3 = 1e4;
var PAGE = 500;
var FIELDS2 = (
  /** @type {const} */
  [
    "id",
    "name",
    "state",
    "priority",
    "attempt",
    "failures",
    "created_at",
    "run_at",
    "started_at",
    "finished_at",
    "cause",
    "error",
    "argument_excerpt",
    "worker_id",
    "worker_name",
    "tags"
  ]
);
function csvCell(value) {
  const text = value === null || value === void 0 ? "" : Array.isArray(value) ? value.join(" ") : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
var csvOf = (jobs) => [FIELDS2, ...jobs.map((job) => FIELDS2.map((field) => job[field]))].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
async function exportJobs(kind, filter, order, onProgress) {
  let jobs = [];
  let cursor;
  do {
    const page = await get("api/jobs", {
      ...filter,
      order,
      cursor,
      include: "error,argument,worker",
      limit: Math.min(PAGE, MOST3 - jobs.length)
    });
    jobs = [...jobs, ...page.jobs];
    cursor = page.next_cursor ?? void 0;
    onProgress(jobs.length);
  } while (cursor && jobs.length < MOST3);
  const text = kind === "csv" ? csvOf(jobs) : toJson(jobs, 2);
  const url = URL.createObjectURL(
    new Blob([text], { type: kind === "csv" ? "text/csv" : "application/json" })
  );
  const link = document.createElement("a");
  link.href = url;
  link.download = `jobs-${(/* @__PURE__ */ new Date()).toISOString().slice(0, 19).replaceAll(":", "")}.${kind}`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
  return { count: jobs.length, isCut: cursor !== void 0 };
}

// ui/filters.js
var TYPING_MS4 = 350;
var SHOWN_MS = 100;
var isPressed = false;
addEventListener("pointerdown", () => isPressed = true, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => isPressed = false, true);
function afterClick(act) {
  if (!isPressed) return act();
  const address = location.hash;
  const actThere = () => setTimeout(act, location.hash === address ? 0 : SHOWN_MS);
  addEventListener("pointerup", () => setTimeout(actThere), { once: true });
}
function useTyped(value, onChange, read = (text) => text.trim()) {
  const [text, setText] = E2(value);
  const told4 = j(value);
  const typed = j(value);
  const timer2 = j(
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    void 0
  );
  const change2 = j(onChange);
  change2.current = onChange;
  V2(() => {
    if (value === told4.current) return;
    clearTimeout(timer2.current);
    told4.current = value;
    typed.current = value;
    setText(value);
  }, [value]);
  const isGone = j(false);
  W2(
    () => () => {
      isGone.current = true;
      clearTimeout(timer2.current);
    },
    []
  );
  const tell2 = () => {
    clearTimeout(timer2.current);
    afterClick(report);
  };
  const report = () => {
    if (isGone.current) return;
    const next = read(typed.current);
    if (next === told4.current) return;
    told4.current = next;
    change2.current(next);
  };
  return {
    value: text,
    onInput: (event) => {
      typed.current = event.target.value;
      setText(typed.current);
      clearTimeout(timer2.current);
      timer2.current = setTimeout(tell2, TYPING_MS4);
    },
    onBlur: tell2,
    onKeyDown: (event) => {
      if (event.key === "Enter" && !event.isComposing) tell2();
    }
  };
}
function FilterInput({ label, value, onChange, hint, ...attributes }) {
  const typed = useTyped(value, onChange);
  return html`<${Field} label=${label} hint=${hint}>
      ${(a2) => html`<input ...${a2} type="search" maxlength="200" autocomplete="off" autocapitalize="none" spellcheck=${false} ...${attributes} ...${typed} />`}
    <//>`;
}
function FilterChoice({ label, value, options, onChange }) {
  return html`<${Field} label=${label}>
      ${(a2) => html`<select
            ...${a2} value=${value} onChange=${(e2) => onChange(e2.target.value)}>
            ${options.map(([one, text]) => html`<option key=${one} value=${one}>${text}</option>`)}
          </select>`}
    <//>`;
}
function FilterInstant({ label, value, onChange }) {
  useZone();
  const typed = useTyped(
    inputOf(value),
    (text) => onChange(instantIn(text)),
    (text) => inputOf(instantIn(text))
  );
  return html`<${Field} label=${inZone(label, value)}>
      ${(a2) => html`<input ...${a2} type="datetime-local" step="1" max=${LATEST} ...${typed} />`}
    <//>`;
}

// jobs/filters.js
var CAUSES = ["error", "timeout", "undecodable", "invalid_argument", "lost", "expired", "canceled"];
var TIME_FILTERS = ["created_after", "created_before", "finished_after", "finished_before"];
var NUMBER_FILTERS = ["min_attempt", "min_duration", "max_duration"];
var FILTERS = [
  "state",
  "q",
  "name",
  "tag",
  "batch",
  "worker",
  "text",
  "cause",
  "failure_group",
  ...TIME_FILTERS,
  ...NUMBER_FILTERS,
  "within",
  "field",
  "op",
  "value"
];
var OF_API = FILTERS.filter((key) => !["within", "field", "op", "value"].includes(key));
var OPS2 = ["eq", "ne", "lt", "le", "gt", "ge", "glob", "exists"];
var DEPLOY = "deploy";
var ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
var WINDOWS_MS = {
  "10m": 6e5,
  "1h": 36e5,
  "6h": 216e5,
  "24h": 864e5,
  "7d": 6048e5
};
function constantOf(text) {
  try {
    const value = JSON.parse(text);
    return value === null || typeof value !== "object" ? value : text;
  } catch {
    return text;
  }
}
function matcherOf(query) {
  const field = query["field"];
  if (!field) return null;
  const op = OPS2.includes(query["op"] ?? "") ? query["op"] : "eq";
  const text = query["value"] ?? "";
  if (op === "exists") return { field, op, value: text !== "false" };
  if (text === "") return null;
  return { field, op, value: op === "glob" ? text : constantOf(text) };
}
function filterOf(query, deployedMs) {
  const filter = Object.fromEntries(OF_API.flatMap((key) => query[key] ? [[key, query[key]]] : []));
  const matcher = matcherOf(query);
  if (matcher) filter["matcher"] = JSON.stringify(matcher);
  const sinceMs = query["within"] === DEPLOY ? deployedMs : nowMs() - (WINDOWS_MS[query["within"] ?? ""] ?? NaN);
  if (sinceMs !== null && !Number.isNaN(sinceMs)) {
    const key = isIn(query["state"] ?? "", "finished") ? "finished_after" : "created_after";
    filter[key] = new Date(sinceMs).toISOString();
  }
  return filter;
}
var actionFilterOf = (filter) => Object.fromEntries(
  Object.entries(filter).map(([key, value]) => [
    key,
    key === "matcher" ? JSON.parse(value) : NUMBER_FILTERS.includes(key) ? Number(value) : value
  ])
);
function useDeployedMs(isWanted) {
  const [deployedMs, setDeployedMs] = E2(
    /** @type {number | null} */
    null
  );
  W2(() => {
    if (!isWanted) return void 0;
    const aborter = new AbortController();
    get("api/workers", {}, aborter.signal).then(
      (answer) => setDeployedMs(deployOf(answer.workers)),
      () => {
      }
    );
    return () => aborter.abort();
  }, [isWanted]);
  return deployedMs;
}
function deployOf(workers) {
  const first = /* @__PURE__ */ new Map();
  for (const worker of workers) {
    const at2 = Date.parse(worker.registered_at);
    if (worker.version && !worker.built_in)
      first.set(worker.version, Math.min(at2, first.get(worker.version) ?? at2));
  }
  return first.size ? Math.max(...first.values()) : null;
}
var SHOWN = ["q", "name", "tag", "within", "cause"];
var hasField = (key, isMore) => SHOWN.includes(key) || isMore && key !== "failure_group" && key !== "batch";
function Filters({ query, batch, change: change2 }) {
  useZone();
  const isMoreWanted = [
    "batch",
    "worker",
    "text",
    "failure_group",
    "field",
    ...TIME_FILTERS,
    ...NUMBER_FILTERS
  ].some((key) => query[key]);
  const [isMore, setMore] = E2(isMoreWanted);
  const names = useNames(query["name"] ?? "");
  return html`<form
      class=${`filters ${isMore ? "is-open" : ""}`} role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      <${Typed} of="q" query=${query} change=${change2} />
      <${Typed} of="name" query=${query} change=${change2} list="names" />
      <${Typed} of="tag" query=${query} change=${change2} />
      <${FilterChoice}
        label=${withinText(query)} value=${query["within"] ?? ""} options=${[
    ["", t("filter.any")],
    ...[...Object.keys(WINDOWS_MS), DEPLOY].map((one) => [one, t(`filter.within.${one}`)])
  ]}
        onChange=${(within) => change2({ within })} />
      <${FilterChoice}
        label=${t("filter.cause")} value=${query["cause"] ?? ""}
        options=${[["", t("filter.any")], ...CAUSES.map((cause) => [cause, t(`cause.${cause}`)])]}
        onChange=${(cause) => change2({ cause })} />
      <datalist id="names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <${Button} class="more" aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>
        ${t(isMore ? "filters.less" : "filters.more")}
      <//>
      ${isMore && html`<${MoreFilters} query=${query} change=${change2} />`}
      <${Chips} query=${query} batch=${batch} isMore=${isMore} change=${change2} />
    </form>`;
}
var withinText = (query) => t(isIn(query["state"] ?? "", "finished") ? "filter.within.finished" : "filter.within.created");
function Typed({ of: of2, query, change: change2, ...more }) {
  return html`<${FilterInput}
      label=${t(`filter.${of2}`)} value=${query[of2] ?? ""}
      onChange=${(text) => change2({ [of2]: text }, true)} ...${more} />`;
}
function MoreFilters({ query, change: change2 }) {
  const common = { query, change: change2 };
  return html`<${Typed} of="text" ...${common} /><${Typed} of="field" ...${common} placeholder="argument.tenant" />
    <${FilterChoice}
      label=${t("filter.op")} value=${query["op"] || "eq"} options=${OPS2.map((op) => [op, t(`filter.op.${op}`)])}
      onChange=${(op) => change2({ op }, true)} />
    <${Typed} of="value" ...${common} placeholder="globex" maxlength=${1024} />
    <${Typed} of="worker" ...${common} />
    <${Typed}
      of="batch" ...${common} maxlength=${36} placeholder="0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
      pattern=${ID.source}
      onChange=${(id) => (id === "" || ID.test(id)) && change2({ batch: id }, true)} />
    ${NUMBER_FILTERS.map(
    (key) => html`<${Typed}
            key=${key} of=${key} ...${common} type="number" min=${key === "min_attempt" ? "1" : "0"}
            step=${key === "min_attempt" ? "1" : "any"} />`
  )}
    ${TIME_FILTERS.map(
    (key) => html`<${FilterInstant}
            key=${key} label=${t(`filter.${key}`)} value=${query[key] ?? ""}
            onChange=${(at2) => change2({ [key]: at2 }, true)} />`
  )}`;
}
function Chips({ query, batch, isMore, change: change2 }) {
  const active = FILTERS.filter((key) => key !== "state" && key !== "op" && key !== "value" && query[key]);
  if (active.length === 0) return null;
  return html`<div class="chips">
      ${active.map(
    (key) => html`<span key=${key} class=${`chip ${hasField(key, isMore) ? "has-field" : ""}`}>
              <${ChipText} of=${key} query=${query} batch=${batch} />
              <button
                type="button" aria-label=${t("filter.remove", { name: t(`filter.${key}`) })}
                onClick=${() => change2(key === "field" ? { field: "", op: "", value: "" } : { [key]: "" })}>
                ✕
              </button>
            </span>`
  )}
      <button
        type="button" class="link"
        onClick=${() => change2(Object.fromEntries([...active, "op", "value"].map((key) => [key, ""])))}>
        ${t("filter.clear")}
      </button>
    </div>`;
}
function ChipText({ of: of2, query, batch }) {
  if (of2 === "field") {
    const matcher = matcherOf(query);
    const text = matcher && `${query["field"]} ${t(`filter.op.${matcher["op"]}`)} ${query["value"] ?? ""}`;
    return html`<${Text} value=${text ?? query["field"]} max=${80} />`;
  }
  if (of2 === "within") return `${withinText(query)}: ${t(`filter.within.${query[of2]}`)}`;
  if (of2 === "batch" && batch)
    return html`${t("filter.batch.name")}: <${Text} value=${titleOf(batch)} max=${60} />`;
  const instant = TIME_FILTERS.includes(of2) ? inputOf(query[of2]).replace("T", " ") : "";
  return html`${t(`filter.${of2}`)}: <${Text} value=${instant || query[of2]} max=${60} />`;
}
function useNames(typed) {
  const [names, setNames] = E2(
    /** @type {string[]} */
    []
  );
  W2(() => {
    const aborter = new AbortController();
    get("api/names", { q: typed, sort: "pushed", limit: 20 }, aborter.signal).then(
      (answer) => setNames(answer.names.map((name) => name.name)),
      () => {
      }
    );
    return () => aborter.abort();
  }, [typed]);
  return names;
}

// jobs/search.js
var PAGE2 = 50;
var COUNT_EVERY_MS = 1e4;
function useJobSearch(filter, { order, cursor, include, of: of2 }) {
  const [progress, setProgress] = E2(
    /** @type {Progress | null} */
    null
  );
  const [isLong, setLong] = E2(false);
  const isStopped = j(false);
  const page = useResource(
    async (signal) => {
      let jobs = [];
      let lookedAt = 0;
      let next = cursor;
      let calls = 0;
      isStopped.current = false;
      try {
        for (; ; ) {
          const found = await get(
            "api/jobs",
            { ...filter(), order, include, cursor: next, limit: PAGE2 - jobs.length },
            signal
          );
          calls += 1;
          jobs = [...jobs, ...found.jobs];
          lookedAt += found.looked_at;
          next = found.next_cursor ?? void 0;
          if (isStopped.current) setLong(true);
          if (!next || jobs.length >= PAGE2 || isStopped.current)
            return { ...found, jobs, looked_at: lookedAt, is_stopped: isStopped.current, of: of2 };
          if (calls > 2) setLong(true);
          setProgress({ jobs, lookedAt });
        }
      } finally {
        if (!signal.aborted) setProgress(null);
      }
    },
    [of2],
    // Do not repeat a long search automatically.
    { events: ["jobs"], leastMs: 1e3, everyMs: 4e3, isHeld: isLong }
  );
  W2(() => {
    setLong(false);
    setProgress(null);
  }, [of2]);
  return {
    ...page,
    progress,
    isLong,
    stop: () => {
      isStopped.current = true;
    }
  };
}
function useJobCount(filter, of2) {
  const found = useResource(
    async (signal) => filter ? { of: of2, ...await get("api/jobs/count", filter(), signal) } : null,
    [of2],
    { everyMs: COUNT_EVERY_MS }
  );
  const reload = j(found.reload);
  reload.current = found.reload;
  W2(() => {
    if (!filter) return void 0;
    const timer2 = setInterval(() => {
      if (!document.hidden) void reload.current();
    }, COUNT_EVERY_MS);
    return () => clearInterval(timer2);
  }, [of2]);
  const data = found.data;
  return data?.of === of2 ? data : null;
}

// jobs/pages/jobs.js
var orderWord = (by) => by === "created" ? "" : by === "run_at" ? ".due" : ".change";
function Page2({ query, go: go3, session: session2 }) {
  const state = query["state"] ?? "";
  const columns3 = useJobColumns(state, query["columns"]);
  const batch = useBatch(query["batch"]);
  const [selected, setSelected] = E2(
    /** @type {Set<string>} */
    /* @__PURE__ */ new Set()
  );
  const [dialog, setDialog] = E2(
    /** @type {{action: import("../actions.js").ActionName, target: import("../actions.js").Target} | null} */
    null
  );
  const [isChoosing, setChoosing] = E2(false);
  const mayOperate = may(session2, "operate");
  const list = useList(query, columns3, selected.size > 0 || dialog !== null);
  const { page, filter, order, rows } = list;
  const live2 = useLatest("jobs");
  const counts = live2?.counts ?? page.data?.counts ?? {};
  W2(() => setSelected(/* @__PURE__ */ new Set()), [list.listed]);
  useKeys({ Escape: () => setSelected(/* @__PURE__ */ new Set()) });
  useTitle(title(state, list.matching, counts));
  const change2 = (changes, replace = false) => go3("jobs", { ...query, cursor: "", ...changes }, { replace });
  const act = (action, isAll) => setDialog({ action, target: isAll ? { filter: actionFilterOf(filter()) } : { ids: [...selected] } });
  return html`<${Head}
      query=${query} filter=${filter} order=${order} session=${session2}
      onColumns=${() => setChoosing(true)} />
    <${Tabs} label=${t("job.state")} tabs=${tabsOf(query, list, counts)} current=${state} />
    <${Filters} query=${query} batch=${batch} change=${change2} />
    <${Matches} query=${query} list=${list} change=${change2} />
    ${mayOperate && html`<${Selection}
          count=${selected.size} isAllPossible=${rows.length > 0 && !page.isLoading} state=${state}
          onClear=${() => setSelected(/* @__PURE__ */ new Set())} onAct=${act} />`}
    <${ErrorBox} problem=${page.problem} onRetry=${page.reload} />
    <${Searching}
      page=${page}
      of=${batch ? batch.counts.total - batch.counts.deleted : state ? counts[state] ?? 0 : sum(counts)} />
    ${page.data?.is_partial && html`<p class="note">${t("jobs.partial")}</p>`}
    <${Rows}
      query=${query} list=${list} columns=${columns3} session=${session2} selected=${selected}
      onSelect=${setSelected} change=${change2} go=${go3} />
    <${Pager}
      hasNext=${Boolean(page.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${page.isLoading} onNext=${() => go3("jobs", { ...query, cursor: page.data?.next_cursor })}
      onFirst=${() => go3("jobs", { ...query, cursor: "" })} />
    ${dialog && html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {
    setSelected(/* @__PURE__ */ new Set());
    void page.reload();
  }} />`}
    ${isChoosing && html`<${ColumnsDialog} columns=${columns3} onClose=${() => setChoosing(false)} />`}`;
}
function useList(query, columns3, isInUse) {
  const state = query["state"] ?? "";
  const order = orderOf(query);
  const include = includeOf(columns3);
  const deployedMs = useDeployedMs(query["within"] === "deploy");
  const isFiltered = FILTERS.some((key) => key !== "state" && query[key]);
  const filter = () => filterOf(query, deployedMs);
  const chosen = JSON.stringify([FILTERS.map((key) => query[key] ?? ""), deployedMs]);
  const listed = JSON.stringify([chosen, order, query["cursor"] ?? "", include]);
  const page = useJobSearch(filter, { order, cursor: query["cursor"], include, of: listed });
  const counted = useJobCount(
    isFiltered ? () => ({ ...filter(), state: "" }) : null,
    JSON.stringify([
      FILTERS.map((key) => key === "state" ? isIn(state, "finished") : query[key] ?? ""),
      deployedMs
    ])
  );
  const hold = useHold();
  const isHeld = hold.isHeld || isInUse;
  const [ended, setEnded] = E2(0);
  const steady = useSteadyRows(
    page.progress?.jobs ?? page.data?.jobs ?? [],
    keyOf2,
    isHeld,
    `${ended} ${page.progress ? `${listed} ${page.progress.jobs.length}` : page.data?.of}`
  );
  const isWhole = Boolean(page.data && !page.data.next_cursor && !query["cursor"] && !page.progress);
  const rows = useSorted(steady.rows, columns3, isWhole ? query : {});
  useActionEnds(() => void page.reload().then(() => setEnded((n) => n + 1)));
  useProgress(include.includes("progress") ? rows : [], isHeld || Boolean(page.progress), page.reload);
  const matching = isFiltered ? counted : null;
  return { page, filter, order, listed, isFiltered, matching, isWhole, hold, steady, rows };
}
function Head({ query, filter, order, session: session2, onColumns }) {
  const link = () => new URL(href("jobs", { ...query, columns: query["columns"] || chosenColumns() }), location.href).href;
  return html`<div class="page-head">
      <h1>${t("nav.jobs")}</h1>
      <${Button} opensDialog class="small" onClick=${onColumns}>${t("columns")}<//>
      <${Export} filter=${filter} order=${order} />
      <${Copy} kind="wide-only" label=${t("copy.link")} text=${link} />
      <${Copy}
        kind="wide-only" label=${t("copy.curl")}
        text=${() => curl(session2, "GET", "api/jobs", { query: { ...filter(), order, limit: PAGE2 } })} />
      ${may(session2, "push") && html`<a class="button small primary as-link" href=${href("enqueue")}>${t("nav.enqueue")}</a>`}
    </div>`;
}
var isExact = ({ isFiltered, matching }, state) => !isFiltered || (matching?.states[state]?.is_exact ?? true);
function tabsOf(query, list, counts) {
  const { isFiltered, matching } = list;
  const { state, ...unstated } = query;
  const countOf = (one) => isFiltered ? matching?.states[one]?.count ?? (matching ? 0 : void 0) : counts[one] ?? 0;
  return [
    {
      key: "",
      label: t("jobs.all"),
      count: isFiltered ? matching?.count : sum(counts),
      isAtLeast: isFiltered && matching !== null && !matching.is_exact,
      href: href("jobs", { ...unstated, order: "", sort: "", cursor: "" })
    },
    ...Object.keys(STATES).filter((one) => counts[one] !== void 0 || one === (state ?? "")).map((one) => ({
      key: one,
      label: tOr(`state.${one}`, one),
      count: countOf(one),
      isAtLeast: !isExact(list, one),
      kind: one === "failed" && countOf(one) ? "bad" : "",
      href: href("jobs", { ...query, state: one, order: "", sort: "", cursor: "" })
    }))
  ];
}
function Matches({ query, list, change: change2 }) {
  const state = query["state"] ?? "";
  const { matching, order } = list;
  const word = orderWord(instantOf2(query));
  return html`<div class="list-head">
      <p class="matches" aria-live="polite">
        ${matching ? t(isExact(list, state) || state === "" ? "jobs.match" : "jobs.match.at_least", {
    count: state ? matching.states[state]?.count ?? 0 : matching.count
  }) : ""}
      </p>
      <label class="order">
        ${t("filter.order")} <select
          value=${order}
          onChange=${(e2) => change2({ order: e2.target.value, sort: "" })}>
          <option value="newest">${t(`filter.newest${word}`)}</option>
          <option value="oldest">${t(`filter.oldest${word}`)}</option>
        </select>
      </label>
    </div>`;
}
var instantOf2 = (query) => (
  // The members of a batch are listed in the order in which they were created.
  query["batch"] ? "created" : orderedBy(query["state"] ?? "")
);
function Rows({ query, list, columns: columns3, session: session2, selected, onSelect, change: change2, go: go3 }) {
  const state = query["state"] ?? "";
  const { page, order, listed, isFiltered, isWhole, hold, steady, rows } = list;
  const [density] = usePref("density", "normal");
  const mayOperate = may(session2, "operate");
  const isOutdated = page.isLoading && !page.progress;
  const by = instantOf2(query);
  const shownColumns = placed(useErrorColumn(columns3, rows, listed), by || "created").map((column) => ({
    ...column,
    ...(isWhole ? column.by : column.key === by) && { sort: column.key }
  }));
  if (mayOperate && state !== "running" && !isIn(state, "finished"))
    shownColumns.push(
      pauseColumn((job) => isIn(job.state, "finished") ? null : html`<${PauseName} name=${job.name} />`)
    );
  const onSort = (key) => {
    if (key === by) change2({ sort: "", order: order === "newest" ? "oldest" : "newest" }, true);
    else change2({ sort: query["sort"] === key ? `-${key}` : key }, true);
  };
  const sort = query["sort"] && isWhole ? query["sort"].replace(/^-/, "") : by;
  const isAscending = query["sort"] && isWhole ? !query["sort"].startsWith("-") : order === "oldest";
  const empty = page.progress ? html`<div></div>` : html`<div class="card">
        <${NoJobs}
          session=${session2} isFiltered=${isFiltered || state !== ""}
          hasMore=${page.data?.next_cursor !== null} />
      </div>`;
  return html`<div
      ...${hold.bind} aria-busy=${String(page.isLoading)}
      class=${`steady ${density === "compact" ? "compact" : ""} ${isOutdated ? "outdated" : ""}`}>
      <${NewRows} count=${steady.newCount} onShow=${steady.showNew} />
      ${!page.data && !page.progress ? html`<${Loading} isLoading=${!page.problem} />` : html`<${Table}
              caption=${t("nav.jobs")} isFixed columns=${shownColumns} rows=${rows} rowKey=${keyOf2}
              label=${(job) => job.name} selected=${selected}
              onSelect=${mayOperate ? onSelect : void 0} sort=${sort} isAscending=${isAscending}
              onSort=${onSort} onOpen=${(job) => go3("job", { id: job.id })}
              empty=${empty} />`}
    </div>`;
}
function orderOf(query) {
  const asked = query["order"];
  if (asked === "oldest" || asked === "newest") return asked;
  const state = query["state"] ?? "";
  return state in STATES && !isIn(state, "finished") ? "oldest" : "newest";
}
var keyOf2 = (job) => job.id;
var sum = (counts) => Object.values(counts).reduce((all, count) => all + count, 0);
function title(state, matching, counts) {
  const what = state ? `${tOr(`state.${state}`, state)} · ${t("nav.jobs")}` : t("nav.jobs");
  const count = matching ? state ? matching.states[state]?.count : matching.count : counts[state];
  return count === void 0 ? what : `${what} (${number(count)})`;
}
function useSorted(rows, columns3, query) {
  const sort = query["sort"] ?? "";
  const by = columns3.find((column) => column.key === sort.replace(/^-/, ""))?.by;
  return y(() => {
    if (!by) return rows;
    const sign = sort.startsWith("-") ? -1 : 1;
    return [...rows].sort((a2, b2) => {
      const [one, other] = [by(a2), by(b2)];
      return sign * (typeof one === "string" ? one.localeCompare(String(other)) : one - Number(other));
    });
  }, [rows, sort]);
}
function Searching({ page, of: of2 }) {
  const lookedAt = page.progress?.lookedAt ?? 0;
  if (page.progress)
    return html`<p class="searching" role="status">
        ${t("jobs.searched", {
      looked_at: lookedAt,
      of: Math.max(of2, lookedAt),
      count: page.progress.jobs.length
    })} <${Bar} value=${lookedAt} of=${of2} label=${t("jobs.search")} /> <${Button}
          class="small" onClick=${page.stop}>
          ${t("jobs.search.stop")}
        <//>
      </p>`;
  if (!page.isLong || !page.data) return null;
  const text = t(page.data.is_stopped ? "jobs.search.stopped" : "jobs.search.over", {
    looked_at: page.data.looked_at,
    of: Math.max(of2, page.data.looked_at)
  });
  return html`<p class="searching muted">${text} <${Button} class="small" onClick=${page.reload}>${t("jobs.search.again")}<//></p>`;
}
function Export({ filter, order }) {
  const [count, setCount] = E2(
    /** @type {number | null} */
    null
  );
  const run = (kind) => async () => {
    setCount(0);
    await attempt(async () => {
      const done = await exportJobs(kind, filter(), order, setCount);
      toast(t(done.isCut ? "jobs.exported.cut" : "jobs.exported", { count: done.count, most: MOST3 }));
    }, "");
    setCount(null);
  };
  if (count !== null) return html`<span class="muted" role="status">${t("jobs.exporting", { count })}</span>`;
  return html`<${Button} class="small wide-only" onClick=${run("csv")}>CSV<//><${Button} class="small wide-only" onClick=${run("json")}>JSON<//>`;
}
function Selection({ count, isAllPossible, state, onClear, onAct }) {
  const [isAll, setAll] = E2(false);
  W2(() => {
    if (count > 0) setAll(false);
  }, [count]);
  W2(() => setAll(false), [state]);
  if (!isAllPossible) return null;
  const fitting = STATES[state]?.actions ?? ACTIONS;
  const isOn = isAll || count > 0;
  return html`<div class=${`selection ${isOn ? "on" : ""}`} role="group" aria-label=${t("selection")}>
      <span aria-live="polite">
        ${isAll ? html`<strong>${t("selection.all")}</strong>` : count > 0 ? html`<strong>${t("selection.count", { count })}</strong>` : html`<span class="muted">${t("selection.none")}</span>`}
      </span>
      ${!isAll && html`<button type="button" class="link" onClick=${() => {
    onClear();
    setAll(true);
  }}>${t("selection.take_all")}</button>`}
      ${isOn && html`<span class="row">
            ${fitting.map(
    (action) => html`<${Button}
                    opensDialog key=${action} class="small" kind=${action === "delete" ? "danger" : ""}
                    onClick=${() => onAct(action, isAll)}>
                    ${t(`action.${action}`)}
                  <//>`
  )}
            <button
              type="button" class="link" onClick=${() => {
    onClear();
    setAll(false);
  }}>
              ${t("selection.clear")}
            </button>
          </span>`}
    </div>`;
}
function NoJobs({ session: session2, isFiltered, hasMore }) {
  if (hasMore) return html`<${Empty} title=${t("jobs.empty.so_far")}>${t("jobs.empty.so_far.text")}<//>`;
  if (isFiltered)
    return html`<${Empty} title=${t("jobs.empty.filtered")}><p><a href=${href("jobs")}>${t("filter.clear")}</a></p><//>`;
  return html`<${Empty} title=${t("jobs.empty.first")} curl=${curl(session2, "POST", "api/jobs", { body: { name: "hello", argument: { to: "world" } } })}>
    ${may(session2, "push") && html`<p><a href=${href("enqueue")}>${t("jobs.empty.form")}</a></p>`}<//>`;
}

// logs/ansi.js
var BASIC = 8;
var plain = () => ({ fg: "", bg: "", marks: /* @__PURE__ */ new Set() });
var MARKS = (
  /** @type {Record<number, string>} */
  { 1: "bold", 2: "dim", 3: "italic", 4: "underline" }
);
var UNMARKS = (
  /** @type {Record<number, string[]>} */
  {
    22: ["bold", "dim"],
    23: ["italic"],
    24: ["underline"]
  }
);
function ansiPieces(text) {
  if (!text.includes("\x1B")) return [{ text, class: "" }];
  const found = [];
  let look2 = plain();
  for (const part of text.split(/(\x1b\[[0-9;:]*m)/)) {
    if (part.startsWith("\x1B[")) look2 = changed(look2, part.slice(2, -1));
    else if (part) found.push({ text: part.replaceAll("\x1B", ""), class: classOf(look2) });
  }
  return found;
}
var withoutAnsi = (text) => text.replace(/\x1b\[[0-9;:]*m/g, "");
function changed(look2, codes) {
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at2 = 0; at2 < numbers.length; at2 += 1) {
    const code = numbers[at2] ?? 0;
    if (code === 0) look2 = plain();
    else if (MARKS[code]) look2.marks.add(MARKS[code]);
    else if (UNMARKS[code]) for (const mark of UNMARKS[code]) look2.marks.delete(mark);
    else if (code === 39) look2.fg = "";
    else if (code === 49) look2.bg = "";
    else if (code >= 30 && code < 30 + BASIC) look2.fg = `${code - 30}`;
    else if (code >= 40 && code < 40 + BASIC) look2.bg = `${code - 40}`;
    else if (code >= 90 && code < 90 + BASIC) look2.fg = `${code - 90 + BASIC}`;
    else if (code >= 100 && code < 100 + BASIC) look2.bg = `${code - 100 + BASIC}`;
    else if (code === 38 || code === 48) {
      const colour = numbers[at2 + 1] === 5 ? numbers[at2 + 2] : void 0;
      if (colour !== void 0 && colour < 2 * BASIC) look2[code === 38 ? "fg" : "bg"] = `${colour}`;
      at2 += numbers[at2 + 1] === 5 ? 2 : 4;
    }
  }
  return look2;
}
function classOf({ fg, bg, marks }) {
  const classes = [...marks].map((mark) => `ansi-${mark}`);
  if (fg) classes.push(`ansi-fg-${fg}`);
  if (bg) classes.push(`ansi-bg-${bg}`);
  return classes.join(" ");
}

// logs/job_log.js
var LEVELS = (
  /** @type {const} */
  ["debug", "info", "warning", "error", "critical"]
);
var MAX_SHOWN2 = 2e3;
var PAGE3 = 1e3;
var WAIT_S = 25;
var AGAIN_MS = 2e3;
var NOTHING = { entries: [], dropped: 0, isLast: false, isCut: false, isArchived: false, missing: null };
function JobLog({ path, isGone = false, mayErase = false }) {
  const [view, setView] = E2(
    /** @type {View} */
    { level: "debug", wanted: "", isFollowing: true }
  );
  const change2 = (part) => setView((old) => ({ ...old, ...part }));
  const { level, wanted, isFollowing } = view;
  const [isSaving, setIsSaving] = E2(false);
  const [isErasing, setIsErasing] = E2(false);
  const [mode] = usePref("times", "relative");
  const { log, problem, retry } = useLog(path, level);
  const end = j(
    /** @type {HTMLElement | null} */
    null
  );
  const text = wanted.toLowerCase();
  const shown2 = text ? log.entries.filter(
    (entry2) => withoutAnsi(entry2.text ?? "").toLowerCase().includes(text)
  ) : log.entries;
  V2(() => {
    if (isFollowing && end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [shown2.length, log.entries.at(-1)?.seq, isFollowing]);
  const save = async () => {
    setIsSaving(true);
    try {
      await download(path, level);
    } finally {
      setIsSaving(false);
    }
  };
  if (isGone && log.entries.length === 0 && (!problem || problem.status === 404)) return null;
  return html`<section class="card job-log" aria-labelledby="job-log">
      <div class="row log-head">
        <h2 id="job-log">${t("job.log")}</h2>
        <${View} view=${view} change=${change2} />
        <${Button} onClick=${save} disabled=${isSaving || log.entries.length === 0}>
          ${t("job.log.download")}
        <//>
        ${mayErase && html`<${Button} opensDialog kind="danger" onClick=${() => setIsErasing(true)}>${t("job.log.erase")}<//>`}
      </div>
      <${ErrorBox} problem=${problem} onRetry=${retry} />
      ${log.isArchived && html`<p class="muted">${t("job.log.archived")}</p>`}
      ${log.dropped > 0 && html`<p class="muted">${t("job.log.dropped", { count: log.dropped })}</p>`}
      ${log.isCut && html`<p class="muted">${t("job.log.cut", { count: MAX_SHOWN2 })}</p>`}
      ${log.entries.length === 0 ? !problem && html`<p class="muted">${t(log.isLast ? "job.log.none" : "job.log.none_yet")}</p>` : html`<div class="log-lines" role="log" aria-label=${t("job.log")} tabindex="0" ref=${end}>${shown2.length === 0 ? html`<p class="muted">${t("job.log.not_found")}</p>` : shown2.map(
    (entry2, at2) => html`<${Line2} key=${entry2.seq} entry=${entry2} before=${shown2[at2 - 1]} isWhole=${!text && level === "debug"} mode=${mode} />`
  )}</div>`}
      ${isErasing && html`<${Sure} title=${t("job.log.erase.title")} verb=${t("job.log.erase")} onClose=${() => setIsErasing(false)} onConfirm=${async () => {
    await del(`${path}/logs`);
    toast(t("job.log.erased"));
    retry();
  }}><p>${t("job.log.erase.text")}</p><//>`}
    </section>`;
}
function View({ view: { level, wanted, isFollowing }, change: change2 }) {
  return html`<label>
      ${t("job.log.level")} <select
        value=${level}
        onChange=${(event) => change2({ level: LEVELS.find((one) => one === event.currentTarget.value) ?? level })}>
        ${LEVELS.map((one) => html`<option value=${one}>${t(`job.log.level.${one}`)}</option>`)}
      </select>
    </label>
    <label>
      ${t("job.log.search")} <input
        type="search" value=${wanted}
        onInput=${(event) => change2({ wanted: event.currentTarget.value })} />
    </label>
    <label class="check">
      <input
        type="checkbox" checked=${isFollowing}
        onChange=${(event) => change2({ isFollowing: event.currentTarget.checked })} /> ${t(
    "job.log.follow"
  )}
    </label>`;
}
function Line2({ entry: entry2, before, isWhole, mode }) {
  const lost = isWhole && before ? entry2.seq - before.seq - 1 : 0;
  const ms4 = Date.parse(entry2.at);
  const { day, clock, zone } = instantParts(ms4, mode);
  const above = before && instantParts(Date.parse(before.at), mode);
  const isNewDay = above?.day !== day || above.zone !== zone;
  return html`${isNewDay && html`<div class="log-gap muted">${day} · ${zone}</div>`}
    ${lost > 0 && html`<div class="log-gap muted">${t("job.log.gap", { count: lost })}</div>`}
    ${isWhole && before && before.attempt !== entry2.attempt && html`<div class="log-gap muted">${t("job.log.attempt")} <${Num} value=${entry2.attempt} /></div>`}
    <div class=${`log-line log-${entry2.level}`}>
      <time datetime=${entry2.at} title=${`${localText(ms4)} · ${utcText(ms4)}`}>
        ${clock}.${String(ms4 % 1e3).padStart(3, "0")}
      </time> <span class="log-level">${t(`job.log.level.${entry2.level}`)}</span> <span class="log-text">
        ${entry2.text === null ? html`<span class="muted">${t("job.log.hidden")}</span>` : ansiPieces(entry2.text).map(
    (piece) => html`<span class=${piece.class}>${pieces(piece.text, true)}</span>`
  )}
      </span>
    </div>`;
}
function useLog(path, level) {
  const [log, setLog] = E2(NOTHING);
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [tries, setTries] = E2(0);
  W2(() => {
    const abort = new AbortController();
    setLog(NOTHING);
    follow(
      path,
      level,
      abort.signal,
      (found) => {
        setProblem(found.missing);
        setLog(found);
      },
      setProblem
    );
    return () => abort.abort();
  }, [path, level, tries]);
  return { log, problem, retry: () => setTries((count) => count + 1) };
}
async function follow(path, level, signal, onLog, onProblem) {
  let log = NOTHING;
  let after = 0;
  let isFirst = true;
  while (!signal.aborted && !log.isLast) {
    try {
      const page = await get(
        `${path}/logs`,
        {
          after,
          level,
          limit: PAGE3,
          ...isFirst ? { tail: MAX_SHOWN2 } : { wait: WAIT_S }
        },
        signal
      );
      isFirst = false;
      after = page.next;
      const entries = page.entries.length ? [...log.entries, ...page.entries] : log.entries;
      log = {
        entries: entries.slice(-MAX_SHOWN2),
        dropped: page.dropped,
        isLast: page.is_last,
        isArchived: log.isArchived || page.is_archived,
        missing: log.missing,
        isCut: log.isCut || entries.length > MAX_SHOWN2 || (entries[0]?.seq ?? 1) > page.dropped + 1
      };
      onLog(log);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      onProblem(error);
      if (error.storedAfter !== void 0 && error.storedAfter > after) {
        after = error.storedAfter;
        isFirst = false;
        log = { ...log, missing: error };
        continue;
      }
      if (error.status !== 0 && error.status < 500) return;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
}
async function download(path, level) {
  const lines2 = [];
  let after = 0;
  for (; ; ) {
    const page = await get(`${path}/logs`, {
      after,
      level,
      limit: 5e3
    });
    for (const { at: at2, attempt: attempt2, level: of2, text } of page.entries)
      lines2.push(`${at2} ${attempt2} ${of2} ${text ?? ""}
`);
    if (page.next === after) break;
    after = page.next;
  }
  const url = URL.createObjectURL(new Blob(lines2, { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `job-${path.split("/").at(-1)}.log`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
}

// jobs/job_spec.js
function isIncomplete(job) {
  return job.argument_hidden || isArgumentIncomplete(job) || job.headers_redacted;
}
var isArgumentIncomplete = (job) => job.argument_redacted || isTooLarge(job.argument, job.argument_bytes) || isSealed(job.argument);
var isSealed = (value) => value !== null && typeof value === "object" && "sealed_with" in value && typeof value.sealed_with === "string" && "sealed" in value;
var isTooLarge = (value, bytes) => value === null && bytes > 1;
function specOf(job) {
  return {
    name: job.name,
    argument: job.argument,
    ...job.priority !== 0 && { priority: job.priority },
    max_retry: job.max_retry,
    timeout: job.timeout,
    ...job.keep_result && { keep_result: true },
    ...job.tags.length && { tags: job.tags },
    ...Object.keys(job.headers).length && { headers: job.headers },
    ...job.requires && { requires: job.requires }
  };
}
function uniqueOf({ unique, created_at }) {
  if (!unique) return {};
  const key = unique.key !== null && { key: unique.key };
  if (unique.debounce) {
    const { wait_s, max_s } = unique.debounce;
    return { debounce: { ...key, wait_s, ...max_s !== null && { max_s } } };
  }
  const { scope, on_conflict } = unique;
  const ttl_s = unique.until && (Date.parse(unique.until) - Date.parse(created_at)) / 1e3;
  return { unique: { ...key, scope, on_conflict, ...scope === "window" && { ttl_s } } };
}

// challenges/parts.js
var CHALLENGE_STATES = ["processing", "succeeded", "failed", "expired", "void"];
var KINDS4 = { processing: "info", succeeded: "ok", failed: "bad", expired: "bad", void: "off" };
var PHASES = (
  /** @type {const} */
  [
    "opened_at",
    "awaiting_since",
    "remind_at",
    "due_at",
    "received_at",
    "run_at",
    "ended_at"
  ]
);
function ChallengeState({ state }) {
  return html`<${Badge} kind=${KINDS4[state] ?? "off"}>${tOr(`challenges.state.${state}`, visible(state))}<//>`;
}
var isForPeople = (one) => Boolean(one.form);
var subjectOf2 = (one) => one.form ? one.form.title : one.meta === null || one.meta === void 0 ? "" : JSON.stringify(one.meta);
var audienceText = (one) => t(`challenges.audience.${one.audience ?? "system"}`);
var labelOf = (choice) => choice.label || tOr(`challenges.choice.${choice.value}`, choice.value);
function choiceText(one, value) {
  const found = one.form?.choices.find((choice) => choice.value === value);
  return found ? labelOf(found) : value;
}
function Answers({ one }) {
  const given = one.answers ?? [];
  if (given.length === 0) return null;
  return html`<ul class="plain">
      ${given.map(
    (answer, at2) => html`<li key=${at2}>
            <p>
              <strong><${Text} value=${choiceText(one, answer.choice)} max=${80} /></strong> <span
                class="muted">
                ${answer.by ? visible(answer.by) : t("challenges.by_link")} · ${visible(answer.address)} · <${Time}
                  at=${answer.at} />
              </span>
            </p>
            ${answer.comment && html`<p><${Text} value=${answer.comment} max=${2e3} isBlock /></p>`}
          </li>`
  )}
    </ul>`;
}
function AnswerButton({ one, onDone }) {
  const [isOpen2, setOpen] = E2(false);
  const isMissing2 = one.audience !== null && one.audience !== void 0 && !one.form;
  if (one.state !== "processing" || one.received >= one.expect || isMissing2) return null;
  const props = { onClose: () => setOpen(false), onDone };
  const answering = isForPeople(one) ? html`<${FormAnswer} one=${one} ...${props} />` : html`<${SystemAnswer} one=${one} ...${props} />`;
  return html`<${Button} opensDialog class="small" onClick=${() => setOpen(true)}>
      ${t("challenges.answer")}
    <//>
    ${isOpen2 && answering}`;
}
var pathOf2 = (one) => (
  /** @type {const} */
  `api/jobs/${encodeURIComponent(one.job_id)}/challenges/${encodeURIComponent(one.request)}/callback`
);
var schemaOf = (one) => one.form.fields ?? {};
var fieldsOf = (one) => Object.entries(schemaOf(one).properties ?? {});
var emptyValues = (one) => ({
  choice: "",
  comment: "",
  ...Object.fromEntries(
    fieldsOf(one).map(([name, asked]) => [
      `values.${name}`,
      asked.type === "boolean" ? asked.default ? "yes" : "" : String(asked.default ?? "")
    ])
  )
});
function answerOf(one, values2) {
  const chosen = one.form.choices.find((choice) => choice.value === values2["choice"]);
  const given = {};
  for (const [name, asked] of chosen?.skips_fields ? [] : fieldsOf(one)) {
    const text = values2[`values.${name}`] ?? "";
    if (asked.type === "boolean") given[name] = text === "yes";
    else if (text.trim()) {
      const isNumber = asked.type !== "string" && Number.isFinite(Number(text));
      given[name] = isNumber ? Number(text) : text;
    }
  }
  return { choice: values2["choice"], comment: values2["comment"], values: given };
}
function FormAnswer({ one, onClose, onDone }) {
  const form = useForm(one, emptyValues);
  const save = async (values2) => {
    if (!values2["choice"]) {
      throw new Problem(422, { title: t("challenges.choose") });
    }
    await post(pathOf2(one), answerOf(one, values2));
    onDone();
    return t("challenges.answered");
  };
  const required = schemaOf(one).required ?? [];
  return html`<${FormDialog}
      title=${visible(one.form.title)} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("challenges.answer")}>
      ${one.form.description && html`<p><${Text} value=${one.form.description} max=${4e3} isBlock /></p>`}
      <${FormField} form=${form} name="choice" label=${t("challenges.choice")} as="select">
        <option value="">${t("challenges.choose_value")}</option>${one.form.choices.map(
    (choice) => html`<option key=${choice.value} value=${choice.value}>${visible(labelOf(choice))}</option>`
  )}
      <//>
      ${fieldsOf(one).map(([name, asked]) => {
    const label = visible(
      (asked.title || name) + (required.includes(name) ? "" : ` (${t("challenges.optional")})`)
    );
    const hint = asked.description ? visible(asked.description) : void 0;
    const path = `values.${name}`;
    if (asked.type === "boolean")
      return html`<${FormCheck} key=${name} form=${form} name=${path}>${visible(asked.title || name)}<//>`;
    if (asked.enum)
      return html`<${FormField}
              key=${name} form=${form} name=${path} label=${label} hint=${hint} as="select">
              <option value="">${t("challenges.choose_value")}</option>
              ${asked.enum.map(
        (value) => html`<option key=${String(value)} value=${String(value)}>${visible(String(value))}</option>`
      )}
            <//>`;
    const type = asked.type !== "string" ? "number" : asked.format === "date" ? "date" : "text";
    return html`<${FormField}
            key=${name} form=${form} name=${path} label=${label} hint=${hint} type=${type}
            step=${asked.type === "number" ? "any" : void 0} />`;
  })}
      ${one.form.comment !== "none" && html`<${FormField} form=${form} name="comment" label=${t("challenges.comment")} as="textarea" rows="3" maxlength="2000" />`}
    <//>`;
}
function SystemAnswer({ one, onClose, onDone }) {
  const form = useForm(null, () => ({ body: "" }));
  const save = async (values2) => {
    let body = null;
    try {
      body = values2["body"]?.trim() ? JSON.parse(values2["body"]) : null;
    } catch {
      throw new Problem(422, { title: t("challenges.bad_json") });
    }
    await post(pathOf2(one), body);
    onDone();
    return t("challenges.answered");
  };
  return html`<${FormDialog} title=${t("challenges.answer.system")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("challenges.answer")}>
    <p>${t("challenges.answer.text")}</p>
    <${FormField} form=${form} name="body" label=${t("challenges.body")} hint=${t("challenges.body.hint")} as="textarea" rows="5" spellcheck="false" /><//>`;
}
function Phases({ one }) {
  return html`<dl class="facts">
      ${PHASES.filter((key) => one[key]).map(
    (key) => html`<dt key=${key}>${t(`challenges.${key}`)}</dt><dd key=${`${key}=`}><${Time} at=${one[key]} /></dd>`
  )}
      <dt>${t("challenges.callbacks")}</dt>
      <dd class="num">${number(one.received)} / ${number(one.expect)}</dd>
      <dt>${t("challenges.who")}</dt><dd>${audienceText(one)}</dd>
      <dt>${t("challenges.failures")}</dt><dd class="num">${number(one.failures ?? 0)}</dd>
      ${one.progress && html`<dt>${t("challenges.progress")}</dt>
          <dd>
            ${one.progress.fraction !== null && `${number(Math.round(one.progress.fraction * 100))} % `}
            <${Text} value=${one.progress.message ?? ""} max=${200} /> <${Time} at=${one.progress.at} />
          </dd>`}
    </dl>`;
}

// jobs/flow_parts.js
var titleOf2 = (job) => job.name === null ? t("flow.gone") : visible([job.name, job.label].filter(Boolean).join(" "));
var jobIn = (flow, id) => flow?.jobs.find((job) => job.id === id);
function firstCauseOf(flow, id) {
  const byId = new Map(flow?.jobs.map((job) => [job.id, job]));
  const passed = /* @__PURE__ */ new Set([id]);
  let at2 = byId.get(id);
  while (at2) {
    const next = at2.after.map((one) => byId.get(one)).find((job) => job && job.state !== null && !isIn(job.state, "finished") && !passed.has(job.id));
    if (!next) return at2.id === id ? null : at2;
    passed.add(next.id);
    at2 = next;
  }
  return null;
}
function JobLink({ id, flow }) {
  const job = jobIn(flow, id);
  const to2 = href("job", { id });
  return job && job.name !== null ? html`<a href=${to2}><${Text} value=${titleOf2(job)} max=${80} /></a> <${Id} id=${id} />` : html`<${Id} id=${id} href=${to2} />`;
}
function brokenIn(flow, newest) {
  const skipped = flow.jobs.map((job) => newest.get(job.id) ?? job).filter((job) => job.state === "skipped" && job.cause === "dependency");
  return /* @__PURE__ */ new Set([...flow.failures, ...skipped.map((job) => job.id)]);
}
function useKeptNodes() {
  const kept = j(
    /** @type {Map<string, {facts: unknown[], node: unknown}>} */
    /* @__PURE__ */ new Map()
  );
  return (key, facts, make) => {
    const old = kept.current.get(key);
    if (old && old.facts.every((fact, place2) => fact === facts[place2]))
      return (
        /** @type {ReturnType<typeof make>} */
        old.node
      );
    const node = make();
    kept.current.set(key, { facts, node });
    return node;
  };
}

// jobs/why_card.js
function Why({ why, job, flow, challenges, mayOperate, onAnswered }) {
  const answer = why.data;
  const open = challenges.find((one) => one.state === "processing" && one.received < one.expect);
  const nameOf7 = (id) => {
    const found = jobIn(flow, id);
    return found && found.name !== null ? titleOf2(found) : "";
  };
  const known2 = { nameOf: nameOf7, question: open ? subjectOf2(open) : "" };
  const title2 = job.state === "running" ? t("why.running") : t("why.title");
  return html`<section class=${`card why ${answer?.verdicts[0]?.code ?? ""}`} aria-labelledby="why">
      <h2 id="why">${title2}</h2>
      <${ErrorBox} problem=${why.problem} onRetry=${why.reload} />
      ${!answer ? html`<${Loading} isLoading=${!why.problem} />` : html`<ol class="verdicts">
              ${answer.verdicts.map(
    (verdict, at2) => html`<li key=${verdict.code + at2} class=${at2 === 0 ? "first" : ""}>
                    <p>
                      <${Text} value=${verdictText(verdict, answer, known2)} max=${800} />
                      ${verdict.code === "awaiting_jobs" && html`<${FirstCause} flow=${flow} id=${job.id} />`}
                    </p>
                    <${VerdictMore} verdict=${verdict} />
                    ${verdict.code === "awaiting_callback" && open && html`<p class="row">
            <span class="muted">${t("challenges.who")}: ${audienceText(open)}</span>
            ${mayOperate && html`<${AnswerButton} one=${open} onDone=${onAnswered} />`}
          </p>`}
                  </li>`
  )}
            </ol>
            ${answer.constraints.length > 0 && html`<${Limits} constraints=${answer.constraints} />`}`}
    </section>`;
}
function FirstCause({ flow, id }) {
  const first = firstCauseOf(flow, id);
  const cause = first && !jobIn(flow, id)?.after.includes(first.id) ? first : null;
  const { data } = useResource(
    (signal) => cause ? get(`api/jobs/${encodeURIComponent(cause.id)}/why`, {}, signal) : Promise.resolve(null),
    [cause?.id, cause?.state],
    { events: ["jobs", "workers", "constraints"], leastMs: 3e3 }
  );
  const verdict = data?.verdicts[0];
  if (!cause || !data || !verdict) return null;
  return html` <span class="first-cause">
      ${t("job.skipped_by")} <a href=${href("job", { id: cause.id })}>${titleOf2(cause)}</a>: <${Text}
        value=${verdictText(verdict, data)} max=${400} />
    </span>`;
}
function VerdictMore({ verdict }) {
  switch (verdict.code) {
    case "constraint":
      return html`<p class="muted">
          <a href=${href("constraints", { name: verdict.name })}>${t(isPause(verdict.name) ? "why.to_pause" : "why.to_constraint")}</a>
          ${verdict.opens_at && html` · ${t(isPause(verdict.name) ? "why.ends" : "why.opens")} <${Time} at=${verdict.opens_at} isNext />`}
          ${verdict.holders.length > 0 && html` · ${t("why.holders")} ${verdict.holders.slice(0, 5).map(
        (holder) => html`<${Id} id=${holder.job_id} href=${href("job", { id: holder.job_id })} /> `
      )}`}
        </p>`;
    case "no_worker":
      return html`<p class="muted">
          ${t("why.next.no_worker")} <a href=${href("workers", { name: verdict.name })}>${t("why.to_workers")}</a>
        </p>`;
    case "no_matching_worker":
    case "workers_unavailable":
      return html`<p class="muted"><a href=${href("workers", { name: verdict.name })}>${t("why.to_workers")}</a></p>`;
    case "no_leader":
      return html`<p class="muted"><a href=${href("masters")}>${t("nav.masters")}</a></p>`;
    case "scheduled":
    case "retrying":
      return html`<p class="muted"><${Time} at=${verdict.due_at} /></p>`;
    case "running":
      return html`<p class="muted">
          <a href=${href("workers", { id: verdict.worker_id })}>${t("why.to_worker")}</a> · ${t(
        "why.deadline"
      )} <${Time} at=${verdict.deadline} />
          ${!verdict.confirmed && html` · <${Badge} kind="warn">${t("why.unconfirmed")}<//>`}
        </p>`;
    default:
      return null;
  }
}
function Limits({ constraints }) {
  return html`<details class="limits">
      <summary>${t("why.constraints", { count: constraints.length })}</summary>
      <ul class="plain">
        ${constraints.map(
    (one) => html`<li key=${one.name}>
              <${Badge} kind=${one.passes ? "ok" : one.mode === "shadow" ? "info" : "warn"}>
                ${one.passes ? t("why.passes") : t("why.closed")}
              <//> <a href=${href("constraints", { name: one.name })}>${visible(one.name)}</a>
              ${one.key && html` <span class="muted">${visible(one.key)} = <${Text} value=${one.key_value} max=${80} /></span>`}
              ${one.weight && html` <span class="num">${number(one.weight.job)} ${one.weight.unit}</span>`}
              ${one.concurrency !== null && html` <span class="num">${number((one.weight ?? one).running ?? 0)} / ${number(one.concurrency)}</span>`}
              ${one.rate && html` <span class="num">
                    ${number((one.weight ? one.weight.in_window : one.starts) ?? 0)} / ${number(
      one.rate.limit
    )} ${t("why.per", { duration: durationText(one.rate.period_s * 1e3) })}
                  </span>`}
            </li>`
  )}
      </ul>
    </details>`;
}

// ui/values.js
function Value({ value, label }) {
  const [mode, setMode] = E2("tree");
  const body = j(
    /** @type {HTMLElement | null} */
    null
  );
  const expand = () => {
    for (const part of body.current?.querySelectorAll("details") ?? []) part.open = true;
  };
  return html`<div class="value">
      <div class="value-tools" role="group" aria-label=${label}>
        <${Button} class="small" aria-pressed=${String(mode === "tree")} onClick=${() => setMode("tree")}>
          ${t("value.tree")}
        <//>
        <${Button} class="small" aria-pressed=${String(mode === "json")} onClick=${() => setMode("json")}>
          JSON
        <//>
        ${mode === "tree" && isDeep(value) && html`<${Button} class="small" onClick=${expand}>${t("value.expand")}<//>`}
        <${Copy} text=${() => toJson(value, 2)} label=${t("copy.json")} />
      </div>
      <div ref=${body} class="value-body" tabindex="0" role="region" aria-label=${label}>
        ${mode === "json" ? html`<pre><${Text} value=${toJson(value, 2)} max=${2e4} isBlock /></pre>` : html`<${Tree} value=${value} depth=${0} />`}
      </div>
    </div>`;
}
var MAX_SHOWN3 = 100;
var OPEN_DEPTH = 3;
var isDeep = (value, depth = 0) => value !== null && typeof value === "object" && (depth >= OPEN_DEPTH ? Object.keys(value).length > 0 : Object.values(value).some((member) => isDeep(member, depth + 1)));
function Tree({ value, depth }) {
  const [shown2, setShown] = E2(MAX_SHOWN3);
  if (value === null) return html`<span class="v-null">null</span>`;
  if (typeof value === "boolean") return html`<span class="v-bool">${String(value)}</span>`;
  if (typeof value === "number" || typeof value === "bigint")
    return html`<span class="v-num">${String(value)}</span>`;
  if (typeof value === "string")
    return html`<span class="v-text">"<${Text} value=${value} max=${1e3} isBlock />"</span>`;
  if (typeof value !== "object") return null;
  const packed = packedBytes(value);
  if (packed) return html`<${Binary} ...${packed} />`;
  const entries = Array.isArray(value) ? value.map((member, i2) => (
    /** @type {[string | number, unknown]} */
    [i2, member]
  )) : Object.entries(value);
  if (entries.length === 0) return html`<span class="v-null">${Array.isArray(value) ? "[]" : "{}"}</span>`;
  const list = html`<ul class="tree">
      ${entries.slice(0, shown2).map(
    ([key, member]) => html`<li key=${key}>
                <span class="v-key">
                  ${typeof key === "number" ? key : html`<${Text} value=${key} max=${200} />`}
                </span> <${Tree} value=${member} depth=${depth + 1} />
              </li>`
  )}
      ${entries.length > shown2 && html`<li>
            <button type="button" class="link" onClick=${() => setShown(shown2 + 10 * MAX_SHOWN3)}>
              ${t("text.more_items", { count: entries.length - shown2 })}
            </button>
          </li>`}
    </ul>`;
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return depth === 0 ? list : html`<details open=${depth < OPEN_DEPTH}><summary>${size}</summary>${list}</details>`;
}
function packedBytes(value) {
  const keys = Object.keys(value);
  if (keys.length !== 1) return null;
  try {
    if (typeof value.$bin === "string") return { bytes: fromBase64(value.$bin), code: null };
    if (Array.isArray(value.$ext) && typeof value.$ext[1] === "string")
      return { bytes: fromBase64(value.$ext[1]), code: Number(value.$ext[0]) };
  } catch {
  }
  return null;
}
function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
function Binary({ bytes, code }) {
  const [rows, setRows] = E2(4);
  const lines2 = [];
  for (let at2 = 0; at2 < Math.min(bytes.length, rows * 16); at2 += 16) {
    const part = [...bytes.slice(at2, at2 + 16)];
    lines2.push(
      `${at2.toString(16).padStart(6, "0")}  ${part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(
        bytes.length > 16 ? 47 : 0
      )}  ${part.map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·").join("")}`
    );
  }
  const save = () => {
    const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = "value.bin";
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1e3);
  };
  return html`<span class="binary">
      <${Badge}>${code === null ? t("value.binary") : t("value.ext", { code: String(code) })}<//> <${Bytes}
        value=${bytes.length} />
      <button type="button" class="link" onClick=${save}>${t("value.save")}</button>
      ${bytes.length > 0 && html`<pre class="hex" tabindex="0" aria-label=${t("value.binary")}>${lines2.join("\n")}</pre>`}
      ${bytes.length > rows * 16 && html`<button type="button" class="link" onClick=${() => setRows(rows * 8)}>${t("value.more_bytes", { count: bytes.length - rows * 16 })}</button>`}
    </span>`;
}

// jobs/attempts.js
var isTold2 = (job) => isIn(job.state, "finished") && job.state !== "succeeded";
function LastWord({ job, flow }) {
  const cause = job.skipped_by && jobIn(flow, job.skipped_by.id);
  const last = job.attempts.at(-1);
  return html`<section
      class=${`card last-word ${job.state === "failed" ? "bad" : job.state === "discarded" ? "ok" : ""}`}>
      <h2>
        ${t(`job.ended.${job.state}`)}${job.cause && ` · ${tOr(`cause.${job.cause}`, visible(job.cause))}`}
      </h2>
      ${last?.message ? html`<pre><${Text} value=${last.message} max=${1500} isBlock /></pre>` : last && html`<${HiddenError} job=${job} attempt=${last} />`}
      ${last && html`<${Stack} attempt=${last} isOpen />`}
      ${job.skipped_by && html`<p>
            ${t("job.skipped_by")} <${JobLink} id=${job.skipped_by.id} flow=${flow} /> ${job.skipped_by.state && html`<${State} state=${job.skipped_by.state} />`}
            ${cause?.error && html` <span class="flow-reason"><${Text} value=${cause.error} max=${300} /></span>`}
          </p>`}
    </section>`;
}
function HiddenError({ job, attempt: one }) {
  if (!job.argument_hidden || !["failure", "timeout", "discarded"].includes(one.outcome ?? "")) return null;
  return html`<p class="muted">${one.error_type && html`<code><${Text} value=${one.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>`;
}
var stackOf = (error) => error !== null && typeof error === "object" && "traceback" in error && typeof error.traceback === "string" ? error.traceback.trimEnd() : "";
function Stack({ attempt: one, isOpen: isOpen2 }) {
  const stack = stackOf(one.error);
  return stack && html`<details open=${isOpen2}>
        <summary>${t("job.stack")}</summary>
        <pre class="message" tabindex="0" aria-label=${t("job.stack")}>
          <${Text} value=${stack} max=${4e3} isBlock />
        </pre>
      </details>`;
}
function Attempts({ job, workerNames }) {
  const attempts = [...job.attempts].reverse();
  return html`<section class="card" aria-labelledby="attempts">
      <h2 id="attempts">${t("job.attempts")} <span class="muted num">${job.attempt}</span></h2>
      ${attempts.length === 0 ? html`<p class="muted">${t("job.attempts.none")}</p>` : html`<ol class="attempts">
              ${attempts.map(
    (one, at2) => html`<li key=${one.attempt} class=${`attempt ${one.outcome ?? "running"}`}>
                    <p class="row">
                      <strong>${t("job.attempt_n", { n: one.attempt })}</strong> <${Badge}
                        kind=${one.outcome === null ? "info" : ["success", "discarded"].includes(one.outcome ?? "") ? "ok" : ["failure", "timeout", "lost"].includes(one.outcome) ? "bad" : "off"}>
                        ${one.outcome === null ? tOr(`state.${job.state}`, visible(job.state)) : tOr(`outcome.${one.outcome}`, visible(one.outcome))}
                      <//>
                      <span class="muted">
                        <${Time} at=${one.started_at} isPast />
                        ${one.finished_at && html` · <${Duration} ms=${Date.parse(one.finished_at) - Date.parse(one.started_at)} />`}
                      </span>
                      <span class="muted">
                        ${t("job.worker")} <${WorkerLink}
                          id=${one.worker_id} name=${workerNames.get(one.worker_id)} />
                      </span>
                    </p>
                    ${(at2 > 0 || !isTold2(job)) && html`${one.message ? html`<pre class="message"><${Text} value=${one.message} max=${1500} isBlock /></pre>` : html`<${HiddenError} job=${job} attempt=${one} />`}
                        <${Stack} attempt=${one} isOpen=${at2 === 0} />`}
                    ${one.error !== null && html`<details><summary>${t("job.error_value")}</summary><${Value} value=${one.error} label=${t("job.error_value")} /></details>`}
                    ${job.events.filter((event) => event.attempt === one.attempt).map(
      (event) => html`<p class="muted">
                              <${Time} at=${event.at} /> ${tOr(`event.${event.event}`, visible(event.event))}
                              ${event.message && html`: <${Text} value=${event.message} />`}
                            </p>`
    )}
                  </li>`
  )}
            </ol>`}
    </section>`;
}

// jobs/timeline.js
function statesOf(job) {
  const ms4 = (at3) => at3 ? Date.parse(at3) : null;
  const created = Date.parse(job.created_at);
  const due = ms4(job.run_at);
  const end = ms4(job.finished_at);
  const states = [];
  let at2 = created;
  const add = (state, to2, ofAttempt = void 0) => {
    if (to2 === null || to2 > at2 || ofAttempt)
      states.push({
        state,
        label: tOr(`state.${state}`, state),
        from: at2,
        to: to2,
        ...ofAttempt && { attempt: ofAttempt }
      });
    if (to2 !== null) at2 = to2;
  };
  for (const [i2, one] of job.attempts.entries()) {
    const start2 = Date.parse(one.started_at);
    const before = job.attempts[i2 - 1];
    const isLatest = i2 === job.attempts.length - 1 && due !== null && due > at2 && due <= start2;
    if (isLatest) add(before ? "retrying" : "scheduled", due);
    if (start2 > at2)
      add(
        before && !isLatest && ["failure", "timeout", "lost"].includes(before.outcome ?? "") ? "retrying" : "ready",
        start2
      );
    at2 = start2;
    add(one.finished_at === null ? job.state : "running", ms4(one.finished_at), one);
  }
  if (end !== null) {
    if (end > at2) add("ready", end);
    states.push({ state: job.state, label: tOr(`state.${job.state}`, job.state), from: end, to: end });
  } else if (!isIn(job.state, "running")) {
    if (due !== null && due > at2 && job.state === "ready")
      add(job.attempts.length ? "retrying" : "scheduled", due);
    states.push({ state: job.state, label: tOr(`state.${job.state}`, job.state), from: at2, to: null });
  }
  return states;
}
function Timeline({ job }) {
  useTick();
  const states = statesOf(job);
  const lasted = states.map((one) => Math.max(0, (one.to ?? nowMs()) - one.from));
  const whole = lasted.reduce((all, ms4) => all + ms4, 0) || 1;
  return html`<section class="card" aria-labelledby="timeline">
      <h2 id="timeline">${t("job.timeline")}</h2>
      <div class="strip" aria-hidden="true">
        ${states.map(
    (one, i2) => html`<i
                key=${i2} class=${`seg seg-${one.state}`}
                style=${{ flexGrow: String((lasted[i2] ?? 0) / whole) }}
                title=${`${one.label} ${durationText(lasted[i2] ?? 0)}`}></i>`
  )}
      </div>
      <table class="states">
        <caption class="sr">${t("job.timeline")}</caption>
        <thead class="sr">
          <tr>
            <th scope="col">${t("job.state")}</th><th scope="col">${t("job.since")}</th>
            <th scope="col">${t("job.duration")}</th>
          </tr>
        </thead>
        <tbody>
          ${states.map(
    (one, i2) => html`<tr key=${i2}>
                <td>
                  <${State} state=${one.state} />
                  ${one.attempt && html` <span class="muted">${t("job.attempt_n", { n: one.attempt.attempt })}</span>`}
                </td>
                <td class="end"><${Time} at=${new Date(one.from).toISOString()} /></td>
                <td class="end">
                  ${one.to !== null && one.to === one.from && i2 === states.length - 1 ? "" : one.to === null ? html`<span class="num">${t("job.so_far", { duration: durationText(steadyMs(lasted[i2] ?? 0)) })}</span>` : html`<${Duration} ms=${lasted[i2]} />`}
                </td>
              </tr>`
  )}
        </tbody>
      </table>
    </section>`;
}

// jobs/carried.js
function noResultText({ state, finished_at }) {
  if (finished_at === null) return t("job.result.none");
  if (state === "succeeded") return t("job.result.gone");
  return t(state === "failed" ? "job.result.failed" : "job.result.unsuccessful");
}
function Carried({ title: title2, value, isHidden, missing = "", isRedacted = false, bytes }) {
  return html`<section class="card">
      <h2>
        ${title2} ${bytes !== void 0 && html`<span class="muted small"><${Bytes} value=${bytes} /></span>`}
      </h2>
      ${missing ? html`<p class="muted">${missing}</p>` : isHidden ? html`<p class="muted">${t("job.hidden")}</p>` : isTooLarge(value, bytes ?? 0) ? html`<p class="muted">${t("job.too_large", { size: bytesText(bytes ?? 0) })}</p>` : html`${isRedacted && html`<p class="muted">${t("job.redacted")}</p>`}<${MaybeSealed} value=${value} label=${title2} />`}
    </section>`;
}
function MaybeSealed({ value, label }) {
  if (!isSealed(value)) return html`<${Value} value=${value} label=${label} />`;
  const { sealed_with: key, sealed: _, ...readable } = value;
  return html`<p class="muted">${t("job.sealed", { key: visible(key) })}</p>
    ${Object.keys(readable).length > 0 && html`<${Value} value=${readable} label=${label} />`}`;
}

// jobs/flow_layout.js
var NODE = { width: 204, height: 46 };
var FAILURE = { width: 264, height: 64 };
var LABEL_HEIGHT = 17;
var JUNCTION = 8;
var GAP = { across: 14, along: 52 };
var MARGIN = 12;
var GROUPED_FROM = 5;
var FEW_LINES = 120;
var library = null;
async function loadLayout() {
  const address = document.documentElement.getAttribute("data-layout") ?? "";
  library ??= await import(new URL(address, document.baseURI).href);
}
function sizeOf(place2) {
  if (place2.kind === "junction") return { width: JUNCTION, height: JUNCTION };
  const { width, height } = place2.isFailure ? FAILURE : NODE;
  const isLabeled = place2.kind === "job" && Boolean(place2.jobs[0]?.label);
  return { width, height: height + (isLabeled ? LABEL_HEIGHT : 0) };
}
var told3 = (keys) => [...keys].sort().join(" ");
function placesOf(jobs, current, isEach, failures2) {
  const behind = new Map(jobs.map((job) => [job.id, []]));
  for (const job of jobs) for (const other of job.after) behind.get(other)?.push(job.id);
  const alike = /* @__PURE__ */ new Map();
  for (const job of jobs) {
    const isSingle = isEach || job.id === current || job.name === null || failures2.has(job.id);
    const likeness = JSON.stringify([job.name, job.when, told3(job.after), told3(behind.get(job.id) ?? [])]);
    const key = isSingle ? job.id : likeness;
    alike.set(key, [...alike.get(key) ?? [], job]);
  }
  const places = [];
  for (const some of alike.values()) {
    const groups = some.length >= GROUPED_FROM ? [some] : some.map((job) => [job]);
    for (const group of groups) {
      const kind = group.length > 1 ? "group" : "job";
      const key = kind === "group" ? `group ${group[0]?.id}` : group[0]?.id ?? "";
      const isFailure = group.some((job) => failures2.has(job.id));
      places.push({ key, kind, jobs: group, isFailure, x: 0, y: 0, before: [], behind: [] });
    }
  }
  const placeOf = new Map(places.flatMap((place2) => place2.jobs.map((job) => [job.id, place2])));
  for (const place2 of places) {
    const before = new Set(place2.jobs.flatMap((job) => job.after.map((id) => placeOf.get(id)?.key ?? "")));
    place2.before = [...before].filter(Boolean);
  }
  const byKey2 = new Map(places.map((place2) => [place2.key, place2]));
  for (const place2 of places) for (const key of place2.before) byKey2.get(key)?.behind.push(place2.key);
  return places;
}
function connected(places) {
  const together = /* @__PURE__ */ new Map();
  for (const place2 of places) {
    const key = told3(place2.before);
    together.set(key, [...together.get(key) ?? [], place2]);
  }
  const pairs = [];
  const junctions = [];
  for (const [key, some] of together) {
    const before = some[0]?.before ?? [];
    if (before.length < 2 || some.length < 2) {
      for (const place2 of some) for (const other of before) pairs.push([other, place2.key]);
      continue;
    }
    const junction = `junction ${key}`;
    const isFailure = false;
    junctions.push({
      key: junction,
      kind: "junction",
      jobs: [],
      isFailure,
      x: 0,
      y: 0,
      before: [],
      behind: []
    });
    for (const other of before) pairs.push([other, junction]);
    for (const place2 of some) pairs.push([junction, place2.key]);
  }
  return { pairs, junctions };
}
function pictureOf(jobs, { current, isEach, failures: failures2 }) {
  const real = placesOf(jobs, current, isEach, failures2);
  const { pairs, junctions } = connected(real);
  const places = [...real, ...junctions];
  if (library === null) throw new Error("The library that lays out graphs is not loaded.");
  const graph = library.graph();
  const nodes = new Map(places.map((place2) => [place2.key, graph.node(place2)]));
  for (const [from, to2] of pairs) {
    const [start2, end] = [nodes.get(from), nodes.get(to2)];
    if (start2 && end) graph.link(start2, end);
  }
  const isSmall = pairs.length <= FEW_LINES;
  const arrange = library.sugiyama().nodeSize(({ data }) => [sizeOf(data).height, sizeOf(data).width]).gap([GAP.across, GAP.along]).layering(library.layeringLongestPath()).decross(isSmall ? library.decrossTwoLayer() : library.decrossDfs()).coord(isSmall ? library.coordGreedy() : library.coordCenter());
  const { width: across, height: along } = arrange(graph);
  for (const node of graph.nodes()) {
    const { width, height } = sizeOf(node.data);
    node.data.x = Math.round(node.y - width / 2 + MARGIN);
    node.data.y = Math.round(node.x - height / 2 + MARGIN);
  }
  const lines2 = [...graph.links()].map(({ source: source2, target, points }) => ({
    key: `${source2.data.key} ${target.data.key}`,
    from: source2.data.key,
    to: target.data.key,
    path: pathThrough(source2.data, target.data, points)
  }));
  return {
    places: places.sort((a2, b2) => a2.x - b2.x || a2.y - b2.y),
    lines: lines2,
    width: Math.ceil(along + 2 * MARGIN),
    height: Math.ceil(across + 2 * MARGIN)
  };
}
function pathThrough(from, to2, points) {
  const start2 = [from.x + sizeOf(from).width, from.y + sizeOf(from).height / 2];
  const end = [to2.x, to2.y + sizeOf(to2).height / 2];
  const between = points.slice(1, -1).map(([x4, y3]) => [y3 + MARGIN, x4 + MARGIN]);
  let path = `M${told22(start2)}`;
  let [x3, y2] = (
    /** @type {[number, number]} */
    start2
  );
  for (const next of [...between, end]) {
    const [toX, toY] = (
      /** @type {[number, number]} */
      next
    );
    const middle = (x3 + toX) / 2;
    path += `C${told22([middle, y2])} ${told22([middle, toY])} ${told22([toX, toY])}`;
    [x3, y2] = [toX, toY];
  }
  return path;
}
var told22 = (point) => point.map((part) => Math.round(part * 10) / 10).join(",");

// jobs/flow_graph.js
var ZOOMS = [0.15, 0.25, 0.4, 0.6, 0.8, 1];
var BOX_MARGIN = 4;
var shapeOf = (jobs, alone) => JSON.stringify(jobs.map(({ id, name, when, after }) => [id, name, when, after, alone.has(id)]));
function FlowGraph({ flow, newest, current, failure, tools }) {
  const [isEach, setEach] = E2(false);
  const [zoom, setZoom] = E2(1);
  const [focused, setFocused] = E2("");
  const box = j(
    /** @type {HTMLElement | null} */
    null
  );
  const failures2 = y(() => new Set(flow.failures), [flow]);
  const shape = y(() => shapeOf(flow.jobs, failures2), [flow.jobs, failures2]);
  const picture = y(
    () => pictureOf(flow.jobs, { current, isEach, failures: failures2 }),
    [shape, current, isEach]
  );
  const broken = y(() => brokenIn(flow, newest), [flow, newest]);
  const critical = y(() => new Set(flow.critical_path), [flow]);
  const byKey2 = y(() => new Map(picture.places.map((place2) => [place2.key, place2])), [picture]);
  const nodes = picture.places.filter((place2) => place2.kind !== "junction");
  const first = nodes.find((place2) => place2.key === (current || failure))?.key ?? nodes[0]?.key ?? "";
  const entry2 = byKey2.has(focused) ? focused : first;
  const hasAlike = isEach || nodes.some((place2) => place2.kind === "group");
  V2(() => {
    const place2 = byKey2.get(current || failure);
    if (box.current && place2) {
      box.current.scrollLeft = place2.x * zoom - (box.current.clientWidth - NODE.width) / 2;
      box.current.scrollTop = place2.y * zoom - (box.current.clientHeight - NODE.height) / 2;
    }
  }, [current, isEach]);
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const place2 = byKey2.get(entry2);
    const next = place2 && nextOf(event.key, place2, nodes, byKey2);
    if (!next) return;
    event.preventDefault();
    const target = box.current?.querySelector(`[data-key="${CSS.escape(next)}"]`);
    if (target instanceof HTMLElement) target.focus();
  };
  const drawn = { picture, byKey: byKey2, newest, broken, critical, current, failure, entry: entry2, zoom };
  return html`<div class="row flow-tools">
      ${tools}
      ${hasAlike && html`<${Button} class="small" aria-pressed=${String(isEach)} onClick=${() => setEach(!isEach)}>${t("flow.each")}<//>`}
      <${ZoomButtons} zoom=${zoom} setZoom=${setZoom} box=${box} picture=${picture} />
    </div>
    <p class="sr" id="flow-keys">${t("flow.keys")}</p>
    <div
      class="flow-box" ref=${box} role="group" aria-label=${t("flow")} aria-describedby="flow-keys"
      onKeyDown=${press}
      onFocusIn=${(e2) => setFocused(e2.target.dataset["key"] ?? focused)}>
      <${Canvas} ...${drawn} near=${entry2 === focused ? focused : ""} onOpen=${() => setEach(true)} />
    </div>
    <p class="muted small flow-legend">
      ${hasPath(critical) && html`<span class="legend-critical"></span> ${t("flow.critical")}`}
      ${broken.size > 0 && html`${hasPath(critical) && " · "}<span class="legend-broken"></span> ${t("flow.broken")}`}
    </p>`;
}
var hasPath = (critical) => critical.size > 1;
function ZoomButtons({ zoom, setZoom, box, picture }) {
  const fit = () => {
    if (!box.current) return;
    const room = Math.min(
      (box.current.clientWidth - BOX_MARGIN) / picture.width,
      (box.current.clientHeight - BOX_MARGIN) / picture.height
    );
    setZoom(Math.max(ZOOMS[0] ?? 0, Math.min(1, room)));
  };
  const step = (way) => setZoom(
    way > 0 ? ZOOMS.find((one) => one > zoom) ?? 1 : [...ZOOMS].reverse().find((one) => one < zoom) ?? ZOOMS[0] ?? 1
  );
  return html`<span class="row" role="group" aria-label=${t("flow.zoom")}>
      <${Button}
        class="small" aria-label=${t("flow.zoom.out")} disabled=${zoom <= (ZOOMS[0] ?? 0)}
        onClick=${() => step(-1)}>
        −
      <//>
      <${Button} class="small" aria-label=${t("flow.zoom.in")} disabled=${zoom >= 1} onClick=${() => step(1)}>
        +
      <//>
      <${Button} class="small" onClick=${fit}>${t("flow.zoom.fit")}<//>
    </span>`;
}
function Canvas(props) {
  const { picture, byKey: byKey2, newest, broken, critical, current, failure, entry: entry2, near, zoom, onOpen } = props;
  const keptNode = useKeptNodes();
  const keptLine = useKeptNodes();
  const line = (one) => {
    const kind = lineClass(one, byKey2, newest, broken, critical, near);
    return keptLine(one.key, [one, kind], () => html`<path key=${one.key} d=${one.path} class=${kind} />`);
  };
  const node = (place2) => {
    const isCurrent = place2.key === current;
    const isEntry = place2.key === entry2;
    const marks = [
      place2.jobs.some((job) => broken.has(job.id)) ? "is-broken" : "",
      hasPath(critical) && place2.jobs.some((job) => critical.has(job.id)) ? "is-critical" : "",
      place2.key === failure ? "is-failure" : ""
    ].join(" ");
    return keptNode(
      place2.key,
      [place2, newest, isCurrent, isEntry, marks],
      () => html`<${Node}
            key=${place2.key} place=${place2} newest=${newest} marks=${marks} isCurrent=${isCurrent}
            isEntry=${isEntry} onOpen=${onOpen} />`
    );
  };
  const junctions = picture.places.filter((place2) => place2.kind === "junction");
  const size = { width: `${picture.width}px`, height: `${picture.height}px` };
  return html`<div style=${{ width: `${picture.width * zoom}px`, height: `${picture.height * zoom}px` }}>
      <div class="flow-canvas" style=${{ ...size, transform: `scale(${zoom})` }}>
        <svg width=${picture.width} height=${picture.height} aria-hidden="true" focusable="false">
          ${picture.lines.map(line)}
          ${junctions.map((place2) => html`<circle key=${place2.key} cx=${place2.x + 4} cy=${place2.y + 4} r="3" />`)}
        </svg>
        ${picture.places.filter((place2) => place2.kind !== "junction").map(node)}
      </div>
    </div>`;
}
function nextOf(key, place2, nodes, byKey2) {
  const nearest = (some) => some.reduce(
    (best, one) => !best || Math.abs(one.y - place2.y) < Math.abs(best.y - place2.y) ? one : best,
    /** @type {Place | undefined} */
    void 0
  )?.key;
  const all = (keys) => keys.flatMap((one) => byKey2.get(one) ?? []);
  const column = nodes.filter((one) => one.x === place2.x);
  switch (key) {
    case "ArrowRight":
      return nearest(all(place2.behind));
    case "ArrowLeft":
      return nearest(all(place2.before));
    case "ArrowDown":
      return column.find((one) => one.y > place2.y)?.key;
    case "ArrowUp":
      return column.filter((one) => one.y < place2.y).at(-1)?.key;
    case "Home":
      return nodes[0]?.key;
    case "End":
      return nodes.at(-1)?.key;
    default:
      return void 0;
  }
}
function lineClass(line, byKey2, newest, broken, critical, focused) {
  const [from, to2] = [byKey2.get(line.from), byKey2.get(line.to)];
  const isOver = Boolean(
    from?.jobs.length && from.jobs.every((job) => isIn((newest.get(job.id) ?? job).state ?? "", "finished"))
  );
  const isBroken = Boolean(
    from?.jobs.some((job) => broken.has(job.id)) && (to2?.kind === "junction" || to2?.jobs.some((job) => broken.has(job.id)))
  );
  const isCritical = [from, to2].every((place2) => place2?.jobs.some((job) => critical.has(job.id)));
  const isAnyEnd = to2?.jobs.some((job) => job.when === "finished") ?? false;
  const isNear = focused !== "" && (line.from === focused || line.to === focused);
  return `${isBroken ? "broken" : isOver ? "over" : ""} ${isCritical ? "critical" : ""} ${isAnyEnd ? "any-end" : ""} ${isNear ? "near" : ""}`;
}
function Node({ place: place2, newest, marks, isCurrent, isEntry, onOpen }) {
  const jobs = place2.jobs.map((job2) => newest.get(job2.id) ?? job2);
  const [job] = (
    /** @type {[FlowJob]} */
    jobs
  );
  const { width, height } = sizeOf(place2);
  const at2 = { left: `${place2.x}px`, top: `${place2.y}px`, width: `${width}px`, height: `${height}px` };
  const tab = isEntry ? 0 : -1;
  const name = job.name === null ? t("flow.gone") : visible(job.name);
  const links = t("flow.links", { before: place2.before.length, behind: place2.behind.length });
  if (place2.kind === "group") {
    const counts = countsOf3(jobs);
    const told4 = counts.map(([state2, count]) => `${number(count)} ${tOr(`state.${state2}`, state2)}`).join(", ");
    return html`<button
        type="button" class=${`flow-node is-group ${marks}`} data-key=${place2.key} style=${at2} tabindex=${tab}
        aria-label=${`${name} × ${number(jobs.length)}, ${told4}, ${links}`}
        title=${`${name} × ${number(jobs.length)}
${told4}`} onClick=${onOpen}>
        <span class="flow-name">${name} <b>× ${number(jobs.length)}</b></span>
        <span class="strip">
          ${counts.map(
      ([state2, count]) => html`<i key=${state2} class=${`seg seg-${state2}`} style=${{ flexGrow: String(count) }}></i>`
    )}
        </span>
      </button>`;
  }
  const state = job.state ?? "";
  const lasted = job.started_at && job.finished_at ? durationText(Date.parse(job.finished_at) - Date.parse(job.started_at)) : "";
  const more = [
    job.more_before > 0 && t("flow.more_before", { count: job.more_before }),
    job.more_behind > 0 && t("flow.more_behind", { count: job.more_behind })
  ].filter(Boolean).join(" · ");
  const word = state ? tOr(`state.${state}`, visible(state)) : "";
  const error = job.error ? visible(job.error) : "";
  const details = [word, more || lasted, error, job.id].filter(Boolean).join(" · ");
  const inside = html`<span class="flow-name">${name}</span>
    ${job.label && html`<span class="flow-label">${visible(job.label)}</span>`}
    <span class="flow-more">
      <span class=${`state state-${state}`}>${state && html`<i aria-hidden="true"></i>`}${word}</span>
      <span class="muted">${more || lasted || `…${job.id.slice(-4)}`}</span>
    </span>
    ${place2.isFailure && html`<span class="flow-error">${error || (job.cause ? tOr(`cause.${job.cause}`, visible(job.cause)) : "")}</span>`}`;
  const common = {
    class: `flow-node ${isCurrent ? "is-current" : ""} ${marks} ${state ? `of-${state}` : "is-gone"}`,
    "data-key": place2.key,
    style: at2,
    tabindex: tab,
    title: `${titleOf2(job)}
${details}`,
    "aria-label": `${titleOf2(job)}, ${word ? `${word}, ` : ""}${error ? `${error}, ` : ""}…${job.id.slice(-6)}, ${links}${more ? `, ${more}` : ""}`
  };
  return job.state === null ? html`<span role="img" ...${common}>${inside}</span>` : html`<a href=${href("job", { id: job.id })} aria-current=${isCurrent ? "true" : void 0} ...${common}>${inside}</a>`;
}
function countsOf3(jobs) {
  return Object.keys(STATES).flatMap((state) => {
    const count = jobs.filter((job) => job.state === state).length;
    return count ? [
      /** @type {[string, number]} */
      [state, count]
    ] : [];
  });
}

// jobs/flow_waterfall.js
var ms3 = (at2) => at2 ? Date.parse(at2) : null;
function rowsOf(jobs, now) {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const rows = jobs.map((job) => {
    const ends = job.after.map((id) => ms3(byId.get(id)?.finished_at));
    const isReleased = ends.every((end2) => end2 !== null);
    const start2 = ms3(job.started_at);
    const released = Math.max(ms3(job.created_at) ?? 0, ...ends.map(Number));
    const from = isReleased && job.created_at ? Math.min(released, start2 ?? released) : start2;
    const end = start2 === null ? null : isIn(job.state ?? "", "finished") ? ms3(job.finished_at) ?? start2 : now;
    return { job, from, start: start2, end };
  });
  const never = Infinity;
  return rows.sort(
    (a2, b2) => (a2.start ?? never) - (b2.start ?? never) || (a2.from ?? never) - (b2.from ?? never) || (a2.job.id < b2.job.id ? -1 : 1) || 0
  );
}
function FlowWaterfall({ flow, newest, current, failure, tools }) {
  const [focused, setFocused] = E2("");
  const list = j(
    /** @type {HTMLElement | null} */
    null
  );
  const kept = useKeptNodes();
  const { rows, first, last } = y(() => {
    const jobs = flow.jobs.map((job) => newest.get(job.id) ?? job);
    const all = rowsOf(jobs, nowMs());
    const times = all.flatMap((row) => [row.from, row.start, row.end]).filter((at2) => at2 !== null);
    return { rows: all, first: Math.min(...times), last: Math.max(...times) };
  }, [flow, newest]);
  const broken = y(() => brokenIn(flow, newest), [flow, newest]);
  const critical = new Set(flow.critical_path);
  const span = Math.max(last - first, 1);
  const entry2 = rows.some((row) => row.job.id === focused) ? focused : current || failure || rows[0]?.job.id;
  V2(() => {
    const row = list.current?.querySelector(`[data-key="${CSS.escape(current || failure)}"]`)?.parentElement;
    if (list.current && row)
      list.current.scrollTop = row.offsetTop - (list.current.clientHeight - row.offsetHeight) / 2;
  }, [current]);
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const place2 = rows.findIndex((row) => row.job.id === entry2);
    const steps = { ArrowDown: place2 + 1, ArrowUp: place2 - 1, Home: 0, End: rows.length - 1 };
    const next = rows[
      /** @type {Record<string, number>} */
      steps[event.key] ?? -1
    ];
    if (!next) return;
    event.preventDefault();
    const target = list.current?.querySelector(`[data-key="${CSS.escape(next.job.id)}"]`);
    if (target instanceof HTMLElement) target.focus();
  };
  const line = (row) => {
    const { id } = row.job;
    const isEntry = id === entry2;
    const isCritical = critical.has(id);
    const isBroken = broken.has(id);
    const facts = [rows, isEntry, isCritical, id === current, id === failure, broken];
    const marks = { isEntry, isCritical, isBroken, isCurrent: id === current, isFailure: id === failure };
    return kept(
      id,
      facts,
      () => html`<${WaterfallRow} key=${id} row=${row} first=${first} span=${span} ...${marks} />`
    );
  };
  return html`<div class="row flow-tools">${tools}</div>
    <p class="sr" id="flow-keys">${t("flow.waterfall.keys")}</p>
    <ol
      class="waterfall" ref=${list} aria-label=${t("flow.view.waterfall")} aria-describedby="flow-keys"
      onKeyDown=${press}
      onFocusIn=${(e2) => setFocused(e2.target.dataset["key"] ?? focused)}>
      ${rows.map(line)}
    </ol>
    <p class="muted small flow-legend">
      <span class="legend-critical"></span> ${t("flow.critical")}
      ${broken.size > 0 && html` · <span class="legend-broken"></span> ${t("flow.broken")}`}
      ${Number.isFinite(span) && ` · ${t("flow.span", { duration: durationText(span) })}`}
    </p>`;
}
function WaterfallRow({ row, first, span, isEntry, isCritical, isBroken, isCurrent, isFailure }) {
  const { job, from, start: start2, end } = row;
  const at2 = (time) => `${100 * (time - first) / span}%`;
  const waited = from !== null && start2 !== null ? start2 - from : null;
  const ran = start2 !== null && end !== null ? end - start2 : null;
  const word = job.state ? tOr(`state.${job.state}`, visible(job.state)) : "";
  const told4 = [
    titleOf2(job),
    word,
    waited !== null && waited > 0 && t("flow.waited", { duration: durationText(waited) }),
    ran !== null && t("flow.ran", { duration: durationText(ran) }),
    isCritical && t("flow.critical"),
    job.error && visible(job.error)
  ].filter(Boolean).join(", ");
  const common = {
    class: "waterfall-name",
    "data-key": job.id,
    tabindex: isEntry ? 0 : -1,
    title: told4,
    "aria-label": told4
  };
  const name = html`<span class=${`state state-${job.state ?? ""}`}><i aria-hidden="true"></i></span>
    <span class="flow-name">${job.name === null ? t("flow.gone") : visible(job.name)}</span>
    ${job.label && html`<span class="flow-label">${visible(job.label)}</span>`}`;
  const marks = [
    isBroken ? "is-broken" : "",
    isCritical ? "is-critical" : "",
    isCurrent ? "is-current" : "",
    isFailure ? "is-failure" : ""
  ].join(" ");
  return html`<li class=${marks}>
      ${job.state === null ? html`<span role="img" ...${common}>${name}</span>` : html`<a href=${href("job", { id: job.id })} aria-current=${isCurrent ? "true" : void 0} ...${common}>${name}</a>`}
      <span class="waterfall-track" aria-hidden="true">
        ${waited !== null && waited > 0 && from !== null && html`<i class="waterfall-wait" style=${{ left: at2(from), width: `${100 * waited / span}%` }}></i>`}
        ${start2 !== null && ran !== null && html`<i class=${`waterfall-run seg-${job.state}`} style=${{ left: at2(start2), width: `${100 * ran / span}%` }}></i>`}
      </span>
      <span class="num muted" aria-hidden="true">${ran === null ? word : durationText(ran)}</span>
      ${job.error && html`<span class="waterfall-error" aria-hidden="true">${visible(job.error)}</span>`}
    </li>`;
}

// jobs/flow.js
var MAX_JOBS = 500;
var VIEWS = (
  /** @type {const} */
  ["graph", "waterfall"]
);
async function loadFlow(path, signal) {
  const flow = await get(path, { limit: MAX_JOBS }, signal);
  if (!flow.jobs.some((job) => job.after.length > 0)) return null;
  await loadLayout();
  return flow;
}
function Flow({ flow, current = "", session: session2, onChange }) {
  const hold = useHold();
  const [view, setView] = usePref("flow", "graph");
  const [place2, setPlace] = E2(0);
  const [, redraw] = E2(0);
  const box = j(
    /** @type {HTMLElement | null} */
    null
  );
  const shown2 = j(flow);
  if (!hold.isHeld) shown2.current = flow;
  const newest = y(() => new Map(flow.jobs.map((job) => [job.id, job])), [flow]);
  const known2 = new Set(shown2.current.jobs.map((job) => job.id));
  const failures2 = flow.failures.filter((id) => known2.has(id));
  const at2 = Math.min(place2, failures2.length - 1);
  const reveal = (id, hasFocus) => {
    const node = box.current?.querySelector(`[data-key="${CSS.escape(id)}"]`);
    if (!(node instanceof HTMLElement)) return;
    if (hasFocus) node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "center", inline: "center" });
  };
  const step = (way, hasFocus = false) => {
    const count = failures2.length;
    if (!count) return;
    const next = (at2 + way + count) % count;
    setPlace(next);
    reveal(failures2[next] ?? "", hasFocus);
  };
  useKeys({ n: () => step(1, true), N: () => step(-1, true) });
  const failure = newest.get(failures2[at2] ?? "");
  const counted = `${t("flow.jobs", { count: shown2.current.jobs.length })}${flow.is_complete ? "" : ` · ${t("flow.incomplete")}`}`;
  const tools = html`<p class="muted small">${counted}</p>
    <span class="row" role="group" aria-label=${t("flow.view")}>
      ${VIEWS.map(
    (one) => html`<${Button} key=${one} class="small" aria-pressed=${String(view === one)} onClick=${() => setView(one)}>${t(`flow.view.${one}`)}<//>`
  )}
    </span>`;
  const drawn = { flow: shown2.current, newest, current, failure: failure?.id ?? "", tools };
  return html`<div class=${`flow ${failures2.length ? "has-failure" : ""}`} ref=${box} ...${hold.bind}>
    ${failure && html`<${Failure} job=${failure} place=${at2} count=${failures2.length} session=${session2} onStep=${step} onChange=${onChange} />`}
    <${NewRows} count=${flow.jobs.filter((job) => !known2.has(job.id)).length} onShow=${() => {
    shown2.current = flow;
    redraw((n) => n + 1);
  }} />
    ${view === "waterfall" ? html`<${FlowWaterfall} ...${drawn} />` : html`<${FlowGraph} ...${drawn} />`}</div>`;
}
function Failure({ job, place: place2, count, session: session2, onStep, onChange }) {
  const retry = () => attempt(
    () => post(`api/jobs/${encodeURIComponent(job.id)}/retry`, { attempt: job.attempt }),
    t("flow.retried", { name: titleOf2(job) })
  ).then(onChange);
  const reason = job.error ?? (job.cause ? t(`cause.${job.cause}`) : "");
  return html`<section class="flow-failure" aria-label=${t("flow.failures")}>
      <p>
        <b>${t("flow.failure", { place: place2 + 1, count })}</b> <a href=${href("job", { id: job.id })}>
          ${titleOf2(job)}
        </a>
        ${reason && html` <span class="flow-reason"><${Text} value=${reason} max=${300} /></span>`}
      </p>
      <div class="row">
        ${count > 1 && html`<${Button} class="small" onClick=${() => onStep(-1)}>${t("flow.failure.before")}<//>`}
        <${Button} class="small" title=${t("flow.failure.key")} onClick=${() => onStep(1)}>
          ${t(count > 1 ? "flow.failure.next" : "flow.failure.show")} <kbd>n</kbd>
        <//>
        ${may(session2, "operate") && job.state !== null && admits(job.state, "retry") && html`<${Button} class="small" kind="primary" onClick=${retry}>${t("flow.retry")}<//>`}
      </div>
    </section>`;
}

// jobs/job_order.js
var REVIVED = (
  /** @type {const} */
  ["jobs", "held", "gone"]
);
var useFlow = (job, path) => {
  const isLinked = Boolean(job && (job.after || (job.dependents_count ?? 0) > 0));
  return useResource(
    (signal) => isLinked ? loadFlow(`${path}/flow`, signal) : Promise.resolve(null),
    [job?.id, isLinked],
    { events: ["jobs"], leastMs: 2e3, everyMs: 5e3 }
  );
};
function Order({ job, flow }) {
  const { dependents_count: dependents = 0, revives } = job;
  if (!job.after && dependents === 0) return null;
  return html`<section class="card order" aria-labelledby="order">
      <h2 id="order">${t("job.order")}</h2>
      ${job.after && html`<p>${t(`job.after.${job.after.when}`, { count: job.after.jobs.length })}</p>
          <${LinkedJobs} jobs=${job.after.jobs} count=${job.after.jobs.length} flow=${flow} />`}
      ${dependents > 0 && html`<p>${t("job.dependents", { count: dependents })}</p><${LinkedJobs} jobs=${job.dependents ?? []} count=${dependents} flow=${flow} />`}
      ${REVIVED.filter((what) => (revives?.[what] ?? 0) > 0).map(
    (what) => html`<p key=${what} class=${what === "gone" ? "warning" : "muted"}>${t(`job.revives.${what}`, { count: revives?.[what] ?? 0 })}</p>`
  )}
    </section>`;
}
function FlowCard({ job, found, session: session2 }) {
  if (!found.data && !found.problem) return null;
  return html`<section class="card after" aria-labelledby="flow">
      <h2 id="flow">${t("flow")}</h2><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${found.data && html`<${Flow} flow=${found.data} current=${job.id} session=${session2} onChange=${found.reload} />`}
    </section>`;
}
var LINKED_AT_ONCE = 8;
function LinkedJobs({ jobs, count, flow }) {
  const item = (one) => html`<li key=${one.id}>
        <${JobLink} id=${one.id} flow=${flow} /> ${one.state && html`<${State} state=${one.state} />`}
        ${"pending" in one && one.pending && html` <${Badge} kind="info">${t("job.awaited")}<//>`}
      </li>`;
  const folded = jobs.slice(LINKED_AT_ONCE);
  return html`<ul class="plain">${jobs.slice(0, LINKED_AT_ONCE).map(item)}</ul>
    ${folded.length > 0 && html`<details>
          <summary>${t("job.linked.more", { count: count - LINKED_AT_ONCE })}</summary>
          <ul class="plain">${folded.map(item)}</ul>
          ${count > jobs.length && html`<p class="muted">${t("job.linked.not_shown", { count: count - jobs.length })}</p>`}
        </details>`}`;
}

// jobs/job_facts.js
function Facts({ job, mayOperate, workerNames }) {
  return html`<section class="card">
      <h2>${t("job.facts")}</h2>
      <dl class="facts">
        <dt>${t("job.name")}</dt>
        <dd>
          <a href=${href("names", { name: job.name })}><${Text} value=${job.name} max=${100} /></a> ${mayOperate && html`<${PauseButton} target=${{ job_name: job.name }} what=${t("pause.what.name", { name: visible(job.name) })} />`}
        </dd>
        <dt>${t("job.priority")}</dt><dd><${Num} value=${job.priority} /></dd>
        <dt>${t("job.retries")}</dt>
        <dd>${retriesText(job)}${job.losses > 0 && html` · ${t("job.losses", { count: job.losses })}`}</dd>
        ${job.progress && job.state !== "succeeded" && html`<dt>${t("job.progress")}</dt><dd><${Progress} progress=${job.progress} /> <span class="muted"><${Time} at=${job.progress.at} /></span></dd>`}
        <${Steps} steps=${job.steps ?? []} />
        <dt>${t("job.timeout")}</dt><dd><${Duration} ms=${job.timeout * 1e3} /></dd>
        <dt>${t("job.created")}</dt><dd><${Time} at=${job.created_at} /></dd>
        <dt>${t(job.state === "awaiting_callback" ? "job.due.answer" : "job.due")}</dt>
        <dd><${Time} at=${job.run_at} /></dd>
        ${job.expires_at && html`<dt>${t("job.expires")}</dt><dd><${Time} at=${job.expires_at} /></dd>`}
        <dt>${t("job.keep_result")}</dt><dd>${t(job.keep_result ? "yes" : "no")}</dd>
        ${job.worker_id && html`<dt>${t("job.worker")}</dt><dd><${WorkerLink} id=${job.worker_id} name=${workerNames.get(job.worker_id)} /></dd>`}
        ${job.requires && html`<dt>${t("job.requires")}</dt><dd><${Text} value=${labelsText(job.requires)} max=${200} /></dd>`}
        <${Tags} tags=${job.tags} mayOperate=${mayOperate} />
        <${Origin} job=${job} />
        <${Unique} job=${job} />
        <${Links} job=${job} />
        ${Object.entries(job.headers).map(
    ([key, value]) => html`<dt><${Text} value=${key} max=${64} /></dt><dd><${Text} value=${value} max=${300} /></dd>`
  )}
      </dl>
    </section>`;
}
function Steps({ steps }) {
  if (steps.length === 0) return null;
  return html`<dt>${t("job.steps")}</dt>
    <dd>
      <ol class="plain">
        ${steps.map(
    (one, n) => html`<li key=${n}>
                <${Text} value=${one.name ?? t("job.hidden")} max=${100} /> <span class="muted">
                  <${Time} at=${one.at} /> · <${Duration} ms=${one.took_s * 1e3} />
                </span>
              </li>`
  )}
      </ol>
    </dd>`;
}
function Tags({ tags, mayOperate }) {
  if (tags.length === 0) return null;
  return html`<dt>${t("job.tags")}</dt>
    <dd>
      ${tags.map(
    (tag) => html`<a class="chip" href=${href("jobs", { tag })}><${Text} value=${tag} max=${64} /></a> ${mayOperate && html`<${PauseButton} target=${{ tag }} what=${t("pause.what.tag", { tag: visible(tag) })} /> `}`
  )}
    </dd>`;
}
function Origin({ job }) {
  const { definition, batch, callback_of: callbackOf } = job;
  return html`${definition && html`<dt>${t("job.definition")}</dt>
      <dd>
        <a href=${href("definitions", { name: definition.name })}>
          <${Text} value=${definition.name} max=${100} />
        </a> <span class="muted">${t("definitions.due")} <${Time} at=${definition.due_at} /></span>
      </dd>`}${batch && html`<dt>${t("job.batch")}</dt><dd><${Id} id=${batch} href=${href("batches", { id: batch })} /></dd>`}${callbackOf && html`<dt>${t("job.callback_of")}</dt>
      <dd>
        <${Id} id=${callbackOf.batch} href=${href("batches", { id: callbackOf.batch })} /> <span class="muted">
          ${tOr(`batches.${callbackOf.callback}`, visible(callbackOf.callback))}
        </span>
      </dd>`}`;
}
function Unique({ job: { unique } }) {
  if (!unique) return null;
  return html`<dt>${t("job.unique")}</dt>
    <dd>
      <${Text} value=${unique.key ?? t("job.unique_argument")} max=${128} /> <span class="muted">
        ${t(`job.unique.${unique.scope}`)}
        ${unique.until && html` <${Time} at=${unique.until} />`}
        ${unique.debounce && ` · ${t("job.debounced")}`}
      </span>
    </dd>`;
}
function Links({ job: { links, constraints } }) {
  return html`${links && links.length > 0 && html`<dt>${t("job.links")}</dt>
      <dd>
        ${links.map(
    (link) => html`<a key=${link.label} class="chip" href=${link.url} target="_blank" rel="noreferrer"><${Text} value=${link.label} max=${40} /></a> `
  )}
      </dd>`}${constraints.length > 0 && html`<dt>${t("nav.constraints")}</dt>
      <dd>
        ${constraints.map(
    (name) => html`<a class="chip" href=${href("constraints", { name })}><${Text} value=${name} max=${64} /></a> `
  )}
      </dd>`}`;
}

// jobs/asked.js
function Deliveries({ job, path, mayOperate }) {
  const found = useResource((signal) => get(`${path}/deliveries`, {}, signal), [job.id, job.state], {
    events: ["jobs"],
    leastMs: 2e3,
    everyMs: 5e3
  });
  const resend = (id) => attempt(
    () => post(`${path}/deliveries/${encodeURIComponent(id)}/resend`),
    t("job.deliveries.resent")
  ).then(found.reload);
  const all = found.data?.deliveries ?? [];
  return html`<section class="card" aria-labelledby="deliveries">
      <h2 id="deliveries">${t("job.deliveries")}</h2>
      <p class="muted"><${Text} value=${job.notify?.url} max=${200} /></p>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${found.data && all.length === 0 && html`<p class="muted">${t("job.deliveries.none")}</p>`}
      <ul class="plain">
        ${all.map(
    (one) => html`<li key=${one.id}>
              <p class="row">
                <${State} state=${one.state} /> ${one.event && html`<code>${visible(one.event)}</code>`} <${Time}
                  at=${one.finished_at ?? one.created_at} /> <${Id}
                  id=${one.id} href=${href("job", { id: one.id })} />
                ${one.next_at && html`<span class="muted">${t("job.deliveries.next")} <${Time} at=${one.next_at} /></span>`}
                ${mayOperate && one.state !== "running" && one.state !== "ready" && html`<${Button} class="small" onClick=${() => resend(one.id)}>${t("job.deliveries.resend")}<//>`}
              </p>
              ${one.state !== "succeeded" && one.attempts.at(-1)?.message && html`<p class="muted"><${Text} value=${one.attempts.at(-1)?.message} max=${300} /></p>`}
            </li>`
  )}
      </ul>
    </section>`;
}
var useChallenges = (job, path) => useResource(
  (signal) => job ? get(`${path}/challenges`, {}, signal) : Promise.resolve(null),
  [job?.id, job?.state],
  { events: ["jobs"], leastMs: 2e3, everyMs: 5e3 }
);
function Challenges({ found, mayOperate }) {
  const all = found.data?.challenges ?? [];
  if (all.length === 0 && !found.problem) return null;
  return html`<section class="card" aria-labelledby="challenges">
      <h2 id="challenges">${t("nav.challenges")}</h2>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      <ol class="attempts">
        ${all.map(
    (one) => html`<li key=${one.request} class="attempt">
              <p class="row">
                <${ChallengeState} state=${one.state} /> <strong>
                  <${Text} value=${subjectOf2(one)} max=${200} />
                </strong> ${mayOperate && html`<${AnswerButton} one=${one} onDone=${found.reload} />`}
              </p>
              ${(one.code || one.error) && html`<p>${one.code && html`<code>${visible(one.code)}</code> `}<${Text} value=${one.error ?? ""} max=${300} /></p>`}
              <${Answers} one=${one} /><${Phases} one=${one} />
            </li>`
  )}
      </ol>
    </section>`;
}

// jobs/change_dialog.js
var CHANGEABLE = ["priority", "run_at", "max_retry", "timeout"];
var changeLabel = (name) => name === "run_at" ? inZone(t("job.due")) : t(name === "timeout" ? "job.timeout_s" : `job.${name}`);
var changeable = (job) => ({
  priority: String(job.priority),
  run_at: inputOf(job.run_at),
  max_retry: String(job.max_retry),
  timeout: String(job.timeout)
});
function Change({ job, path, onClose, onDone }) {
  useZone();
  const form = useForm(job, changeable);
  const save = async (values2, base) => {
    const opened2 = (
      /** @type {import("../ui/forms.js").Values} */
      changeable(base)
    );
    const changed2 = CHANGEABLE.filter((name) => values2[name] !== opened2[name]);
    const present = (
      /** @type {import("../ui/forms.js").Values} */
      changeable(await get(path))
    );
    if (changed2.some((name) => present[name] !== opened2[name] && present[name] !== values2[name]))
      throw new Problem(412, { title: t("form.conflict") });
    const sent = changed2.map((name) => [
      name,
      name === "run_at" ? instantIn(values2[name] ?? "") : Number(values2[name])
    ]);
    await patch(path, Object.fromEntries(sent));
    await onDone();
    return t("form.saved", {
      what: changed2.map((name) => `${changeLabel(name)} ${opened2[name]} → ${(values2[name] ?? "").replace("T", " ")}`).join(", ")
    });
  };
  return html`<${FormDialog}
      title=${t("job.change.title")} form=${form} onClose=${onClose} onSave=${save} reread=${() => get(path)}
      labelOf=${changeLabel}>
      <div class="form-grid">
        <${FormField}
          form=${form} name="priority" label=${changeLabel("priority")} hint=${t("job.priority.hint")}
          type="number" step="1" required />
        <${FormField}
          form=${form} name="run_at" label=${changeLabel("run_at")} type="datetime-local" step="1"
          max=${LATEST} />
        <${FormField}
          form=${form} name="max_retry" label=${changeLabel("max_retry")} type="number" min="0" max="1000"
          step="1" required />
        <${FormField}
          form=${form} name="timeout" label=${changeLabel("timeout")} type="number" min="0.001" step="any"
          required />
      </div>
    <//>`;
}

// jobs/pages/job.js
var workersOf = (job) => [job.worker_id, ...job.attempts.map((one) => one.worker_id).reverse()].filter((id) => id !== null);
function Page3({ query, go: go3, session: session2 }) {
  const id = query["id"] ?? "";
  const path = (
    /** @type {const} */
    `api/jobs/${encodeURIComponent(id)}`
  );
  const { found, job, why } = useJob(id, path);
  const isOver = job !== null && isIn(job.state, "finished");
  const challenges = useChallenges(job, path);
  const flow = useFlow(job, path);
  const workerNames = useWorkerNames(job ? workersOf(job) : []);
  const [dialog, setDialog] = E2("");
  if (!job) return html`<${NoJob} id=${id} path=${path} found=${found} session=${session2} />`;
  const again = async () => {
    await found.reload();
  };
  const mayOperate = may(session2, "operate");
  return html`<${Head2} job=${job} session=${session2} />
    <${ErrorBox} problem=${found.problem} />
    <${Actions} job=${job} session=${session2} path=${path} onAsk=${setDialog} onDone=${again} />
    ${!isOver && html`<${Why}
          why=${why} job=${job} flow=${flow.data} challenges=${challenges.data?.challenges ?? []}
          mayOperate=${mayOperate} onAnswered=${challenges.reload} />`}
    ${isTold2(job) && html`<${LastWord} job=${job} flow=${flow.data} />`}
    ${job.erased && job.erased.length > 0 && html`<p class="muted">
          ${t("personal.job.erased")}
          : ${job.erased.map(
    (field) => html`<code class="chip"><${Text} value=${field} max=${80} /></code> `
  )}
        </p>`}
    <div class="job-grid">
      <div class="stack">
        <${Timeline} job=${job} />
        <${Challenges} found=${challenges} mayOperate=${mayOperate} />
        <${Attempts} job=${job} workerNames=${workerNames} />
      </div>
      <div class="stack">
        <${Content} job=${job} />
        <${Order} job=${job} flow=${flow.data} />
        <${Facts} job=${job} mayOperate=${mayOperate} workerNames=${workerNames} />
        ${job.notify && html`<${Deliveries} job=${job} path=${path} mayOperate=${mayOperate} />`}
      </div>
    </div>
    ${job.attempt > 0 && html`<${JobLog} key=${job.id} path=${path} mayErase=${mayOperate && isOver} />`}
    ${(job.after || (job.dependents_count ?? 0) > 0) && html`<${FlowCard} key=${job.id} job=${job} found=${flow} session=${session2} />`}
    <${Question} asked=${dialog} job=${job} path=${path} go=${go3} onClose=${() => setDialog("")} onDone=${again} />`;
}
function useJob(id, path) {
  const found = useResource((signal) => id ? get(path, {}, signal) : Promise.resolve(null), [id], {
    events: ["jobs"],
    leastMs: 1e3,
    everyMs: 3e3,
    // Poll, because no event announces changes by the application that pushed the job: they are not in the audit log.
    pollMs: 5e3
  });
  useTitle(
    found.data ? `${tOr(`state.${found.data.state}`, found.data.state)} · ${found.data.name} · …${id.slice(-6)}` : null
  );
  const job = found.data?.id === id ? found.data : null;
  useProgress(job ? [job] : [], false, found.reload);
  const isWaited = job !== null && !isIn(job.state, "finished");
  const why = useResource(
    (signal) => isWaited ? get(`${path}/why`, {}, signal) : Promise.resolve(null),
    [id, job?.state],
    { events: ["jobs", "workers", "masters", "constraints"], leastMs: 1500, everyMs: 4e3 }
  );
  W2(() => {
    if (why.data) tellTime(why.data.as_of);
  }, [why.data?.as_of]);
  return { found, job, why };
}
function NoJob({ id, path, found, session: session2 }) {
  if (!id)
    return html`<h1>${t("nav.job")}</h1><p>${t("job.no_id")} <a href=${href("jobs")}>${t("nav.jobs")}</a></p>`;
  if (found.problem?.status === 404)
    return html`<h1>${t("nav.job")}</h1>
      <div class="card">
        <${Empty} title=${t("job.unknown")}>
          <p><code>${visible(id)}</code></p><p>${t("job.unknown.text")}</p>
          <p><a href=${href("jobs")}>${t("nav.jobs")}</a></p>
        <//>
      </div>
      <${JobLog} key=${id} path=${path} isGone mayErase=${may(session2, "operate")} />`;
  return html`<h1>${t("nav.job")}</h1><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />${!found.problem && html`<${Loading} />`}`;
}
function Head2({ job, session: session2 }) {
  return html`<p class="crumbs">
      <a href=${href("jobs")}>${t("nav.jobs")}</a> / <a href=${href("jobs", { name: job.name })}>
        <${Text} value=${job.name} max=${60} />
      </a>
    </p>
    <div class="page-head job-head">
      <h1><${Text} value=${job.name} max=${120} /></h1>
      <span class="big-state"><${State} state=${job.state} /></span>
    </div>
    <div class="row job-id">
      <code class="id">${visible(job.id)}</code> <${CopyMenu}>
        <${Copy} text=${job.id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(job, 2)} label=${t("copy.json")} /> ${!isIncomplete(job) && html`<${Copy} text=${() => curl(session2, "POST", "api/jobs", { body: { ...specOf(job), ...uniqueOf(job) } })} label=${t("copy.curl")} />`}
      <//>
    </div>`;
}
function Actions({ job, session: session2, path, onAsk, onDone }) {
  const act = (name) => (
    // Name the attempt in a retry, so that a double click or an outdated page does not run the job twice.
    attempt(
      () => post(`${path}/${name}`, name === "retry" ? { attempt: job.attempt } : void 0),
      t(`job.${name}.done`)
    ).then(onDone)
  );
  const mayOperate = may(session2, "operate");
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
      ${mayOperate && admits(job.state, "run") && html`<${Button} kind="primary" onClick=${() => act("run")}>${t("job.run")}<//>`}
      ${mayOperate && admits(job.state, "retry") && html`<${Button} kind="primary" onClick=${() => act("retry")}>${t("job.retry")}<//>`}
      ${mayOperate && admits(job.state, "set_priority") && html`<${Button} opensDialog onClick=${() => onAsk("change")}>${t("job.change")}<//>`}
      ${may(session2, "push") && !job.argument_hidden && html`<a class="button as-link" href=${href("enqueue", { from: job.id })}>${t("job.again")}</a>`}
      ${may(session2, "push") && admits(job.state, "cancel") && html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("cancel")}>${t("job.cancel")}<//>`}
      ${mayOperate && admits(job.state, "delete") && html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("delete")}>${t("job.delete")}<//>`}
    </div>`;
}
function Content({ job }) {
  return html`<${Carried}
      title=${t("job.argument")} value=${job.argument} isHidden=${job.argument_hidden}
      isRedacted=${job.argument_redacted} bytes=${job.argument_bytes} />
    ${(job.has_result || job.keep_result) && html`<${Carried} title=${t("job.result")} value=${job.result} isHidden=${job.result_hidden} missing=${job.has_result ? "" : noResultText(job)} />`}`;
}
function Question({ asked, job, path, go: go3, onClose, onDone }) {
  const cancel = async () => {
    await post(`${path}/cancel`);
    await onDone();
  };
  const remove = async () => {
    await del(path);
    toast(t("job.deleted", { name: visible(job.name) }));
    go3("jobs", {});
  };
  switch (asked) {
    case "change":
      return html`<${Change} job=${job} path=${path} onClose=${onClose} onDone=${onDone} />`;
    case "cancel":
      return html`<${ConfirmCount} title=${t("job.cancel.title")} count=${1} verb=${t("job.cancel")} onClose=${onClose} onConfirm=${cancel}>
        <p>${t(job.state === "running" ? "job.cancel.running" : "job.cancel.text")}</p><//>`;
    case "delete":
      return html`<${ConfirmCount} title=${t("job.delete.title")} count=${1} verb=${t("job.delete")} onClose=${onClose} onConfirm=${remove}>
        <p>${t("job.delete.text")}</p><//>`;
    default:
      return null;
  }
}

// jobs/still_failed.js
var MAX_ASKED2 = 20;
var ENOUGH_MS = 2e3;
var AGAIN_MS2 = 15e3;
function useStillFailed(groups, done) {
  const asked = groups.slice(0, MAX_ASKED2);
  const { data, reload } = useResource(
    async (signal) => {
      const found = /* @__PURE__ */ new Map();
      const beganMs = Date.now();
      for (const { id, name } of asked) {
        if (Date.now() - beganMs > ENOUGH_MS) break;
        const still = await stillOf({ name, failure_group: id }, signal);
        if (still) found.set(id, still);
      }
      return found;
    },
    [asked.map((group) => `${group.id} ${group.count}`).join(), done],
    { events: ["jobs"], leastMs: AGAIN_MS2, everyMs: AGAIN_MS2 }
  );
  return { still: data ?? /* @__PURE__ */ new Map(), reload };
}
function StillFailedOf({ name, failed }) {
  const { data } = useResource(
    async (signal) => failed > 0 ? stillOf({ name }, signal) : null,
    [name, failed],
    { events: ["jobs"], leastMs: AGAIN_MS2, everyMs: AGAIN_MS2 }
  );
  return data && html`<a class="tile-more" href=${href("jobs", { state: "failed", name })}>${stillText(data)}</a>`;
}
var stillText = ({ count, is_exact: isExact2 }) => t(count === 0 ? "failures.still.none" : isExact2 ? "failures.still" : "failures.still.least", { count });
async function stillOf(of2, signal) {
  try {
    return await get("api/jobs/count", { state: "failed", ...of2 }, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 403) return null;
    throw error;
  }
}

// workers/served.js
var servedBy = (workers) => new Set(
  workers.filter((worker) => worker.state === "fresh" || worker.state === "draining").flatMap((worker) => worker.names)
);
function useServed() {
  const { data } = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 5e3,
    everyMs: 3e4
  });
  return data && servedBy(data.workers);
}

// jobs/pages/names.js
var SPANS2 = ["1h", "6h", "24h", "7d", "30d"];
var SORTS2 = ["name", "pushed", "failed", "ready"];
var PAGE4 = 50;
function Page4({ query, go: go3, session: session2 }) {
  return query["name"] ? html`<${One} name=${query["name"]} query=${query} session=${session2} />` : html`<${List} query=${query} go=${go3} session=${session2} />`;
}
var spanOf = (query) => SPANS2.find((one) => one === query["span"]) ?? "1h";
function Spans({ query }) {
  const span = spanOf(query);
  return html`<nav class="spans" aria-label=${t("overview.span")}>
      ${SPANS2.map(
    (one) => html`<a
              key=${one} class="chip-link"
              href=${href("names", { ...query, span: one === "1h" ? "" : one, cursor: "" })}
              aria-current=${one === span ? "true" : void 0}>
              ${one}
            </a>`
  )}
    </nav>`;
}
function List({ query, go: go3, session: session2 }) {
  const span = spanOf(query);
  const sort = SORTS2.includes(query["sort"] ?? "") ? query["sort"] : "failed";
  const hold = useHold();
  const of2 = JSON.stringify([query["q"], span, sort, query["cursor"]]);
  const found = useResource(
    async (signal) => {
      const wanted = { q: query["q"], span, sort, cursor: query["cursor"], limit: PAGE4 };
      return { ...await get("api/names", wanted, signal), of: of2 };
    },
    [of2],
    { events: ["jobs", "workers"], leastMs: 5e3, everyMs: 15e3 }
  );
  const served = useServed();
  const paused = usePausedNames();
  const { rows } = useSteadyRows(found.data?.names ?? [], nameOf2, hold.isHeld, found.data?.of ?? "");
  const change2 = (changes, replace = false) => go3("names", { ...query, cursor: "", ...changes }, { replace });
  return html`<div class="page-head"><h1>${t("nav.names")}</h1><${Spans} query=${query} /></div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      <${FilterInput}
        label=${t("names.contains")} value=${query["q"] ?? ""}
        onChange=${(q3) => change2({ q: q3 }, true)} />
      <${FilterChoice}
        label=${t("filter.order")} value=${sort} options=${SORTS2.map((one) => [one, t(`names.sort.${one}`)])}
        onChange=${(one) => change2({ sort: one })} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${Table}
              caption=${t("nav.names")} rows=${rows} rowKey=${nameOf2}
              onOpen=${(name) => go3("names", { name: name.name, span: query["span"] })}
              columns=${[
    ...columns(rows, served, paused),
    ...may(session2, "operate") ? [pauseColumn((name) => html`<${PauseName} name=${name.name} />`)] : []
  ]}
              empty=${html`<div class="card"><${Empty} title=${t(query["q"] ? "names.empty.filtered" : "names.empty")} /></div>`} />
          </div>`}
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading} onNext=${() => go3("names", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => change2({})} />`;
}
var nameOf2 = (name) => name.name;
function Success({ name }) {
  if (name.success_share === null) return html`<${Num} value=${null} />`;
  const text = number(name.success_share, { style: "percent", maximumFractionDigits: 1 });
  return name.is_failing ? html`<${Badge} kind="bad">${text}<//>` : html`<span class="num">${text}</span>`;
}
var Linked = ({ count, to: to2 }) => count > 0 ? html`<a href=${to2}><${Num} value=${count} /></a>` : html`<span class="muted"><${Num} value=${count} /></span>`;
var figures = (key, label, render, priority) => ({
  key,
  label,
  align: "end",
  ...priority && { priority },
  render
});
function columns(names, served, paused) {
  const link = (count2, to2) => html`<${Linked} count=${count2} to=${to2} />`;
  const count = (value) => html`<${Num} value=${value} />`;
  const lasted = (ms4) => html`<${Duration} ms=${ms4} />`;
  return [
    {
      key: "name",
      label: t("job.name"),
      render: (name) => html`<a href=${href("names", { name: name.name })}><${Text} value=${name.name} max=${100} /></a>${name.ready > 0 && served?.has(name.name) === false && html` <${Badge} kind="bad">${t("names.no_worker")}<//>`}${paused.has(name.name) && html` <${Badge} kind="warn">${t("names.paused")}<//>`}`
    },
    figures(
      "ready",
      t("state.ready"),
      ({ name, ready }) => link(ready, href("jobs", { state: "ready", name }))
    ),
    figures("pushed", t("names.pushed"), (name) => count(name.pushed), 2),
    figures("succeeded", t("state.succeeded"), (name) => count(name.succeeded), 2),
    // Show this column only if a name has discarded jobs: few queues discard jobs, and the table has little space.
    ...names.some((name) => name.discarded) ? [figures("discarded", t("state.discarded"), (name) => count(name.discarded), 3)] : [],
    figures("failed", t("state.failed"), ({ name, failed }) => link(failed, href("failures", { name }))),
    figures("retried", t("overview.retried"), (name) => count(name.retried), 3),
    figures("share", t("names.success"), (name) => html`<${Success} name=${name} />`),
    figures("wait50", t("names.wait50"), (name) => lasted(name.wait?.p50_ms), 4),
    figures("wait95", t("names.wait95"), (name) => lasted(name.wait?.p95_ms), 2),
    figures("run50", t("names.run50"), (name) => lasted(name.run?.p50_ms), 4),
    figures("run95", t("names.run95"), (name) => lasted(name.run?.p95_ms), 2),
    figures("seen", t("names.seen"), (name) => html`<${Time} at=${name.last_seen_at} />`, 3)
  ];
}
function One({ name, query, session: session2 }) {
  useTitle(name);
  const span = spanOf(query);
  const found = useResource(
    (signal) => get(`api/names/${encodeURIComponent(name)}`, { span }, signal),
    [name, span],
    { events: ["jobs", "workers"], leastMs: 5e3, everyMs: 15e3 }
  );
  const history2 = useResource((signal) => get("api/stats/history", { name, span }, signal), [name, span], {
    events: ["stats"],
    leastMs: 1e4,
    everyMs: 3e4
  });
  const compared = comparedPeriod(query["compare"], span ?? "");
  const earlier = useEarlier(compared, span ?? "", name);
  const compareLink = (word) => href("names", { ...query, compare: word });
  const data = found.data?.name === name ? found.data : null;
  return html`<p class="crumbs"><a href=${href("names")}>${t("nav.names")}</a></p>
    <div class="page-head"><h1><${Text} value=${name} max=${120} /></h1><${Spans} query=${query} /></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!data ? html`<${Loading} isLoading=${!found.problem} />` : html`<p class="row">
            <a href=${href("jobs", { name })}>${t("nav.jobs")}</a> <a href=${href("failures", { name })}>
              ${t("nav.failures")}
            </a> <a href=${href("enqueue", { name })}>${t("nav.enqueue")}</a> ${may(session2, "operate") && html`<${PauseButton} target=${{ job_name: name }} what=${t("pause.what.name", { name: visible(name) })} />`}
          </p>
          <${Pauses}
            mayOperate=${may(session2, "operate")}
            isOf=${(matcher) => "field" in matcher && matcher.field === "name" && matcher.value === name} />
          <div class="tiles">
            ${FIGURES.map(
    (key) => html`<div key=${key} class=${`tile ${key === "failed" && data.failed > 0 ? "bad" : ""}`}>
                    <span class="tile-label">${t(`names.${key}`)}</span><b><${Num} value=${data[key]} /></b>
                    ${key === "failed" && html`<${StillFailedOf} name=${name} failed=${data.failed} />`}
                  </div>`
  )}
            <div class="tile">
              <span class="tile-label">${t("names.success")}</span><b><${Success} name=${data} /></b>
            </div>
          </div>
          ${data.ready > 0 && html`<${BacklogWhy} whose=${{ name }} />`}
          <section class="card" aria-labelledby="course">
            <div class="page-head">
              <h2 id="course">${t("overview.throughput")}</h2>
              <${CompareWith} word=${compared} span=${span} link=${compareLink} />
            </div>
            <${ErrorBox} problem=${history2.problem} onRetry=${history2.reload} />
            ${history2.data && html`<${Course2} history=${history2.data} name=${name} earlier=${earlier} compared=${compared} />`}
          </section>
          <div class="cards after">
            <${Spread} title=${t("names.wait")} spread=${data.wait} histogram=${data.wait_histogram} />
            <${Spread} title=${t("names.run")} spread=${data.run} histogram=${data.run_histogram} />
          </div>
          <${Contracts} name=${data} mayOperate=${may(session2, "operate")} onRemoved=${found.reload} />`}`;
}
function Course2({ history: history2, name, earlier, compared }) {
  const marks = useMarks(history2.points[0]?.at, name);
  const { xs, outcomes, times } = y(() => {
    const points = completePoints(history2);
    const perS = ratesOf(points, history2.step_s);
    return {
      xs: points.map((point) => Date.parse(point.at) / 1e3),
      outcomes: OUTCOMES.map((key) => ({
        label: t(`state.${key}`),
        color: `--${key}`,
        values: perS(key)
      })),
      times: [
        {
          label: t("overview.wait_p95"),
          color: "--retrying",
          values: points.map((point) => point.wait?.p95_ms ?? null)
        },
        {
          label: t("overview.run_p95"),
          color: "--running",
          values: points.map((point) => point.run?.p95_ms ?? null)
        }
      ]
    };
  }, [history2]);
  const before = y(
    () => ({
      ends: comparedWith(earlier, compared, xs, endsPerS),
      times: comparedWith(earlier, compared, xs, (point) => point.wait?.p95_ms ?? null)
    }),
    [earlier, compared, xs]
  );
  return html`<${Chart}
      label=${t("overview.throughput")} xs=${xs} series=${outcomes} before=${before.ends} marks=${marks}
      listsMarks isStacked
      onRange=${(from, to2) => go("jobs", { name, finished_after: from, finished_before: to2 })}
      height=${180} format=${perSText} />
    <h3>${t("overview.times")}</h3>
    <${Chart}
      label=${t("overview.times")} xs=${xs} series=${times} before=${before.times} marks=${marks}
      height=${140} format=${durationText} />`;
}
var SPREAD = (
  /** @type {const} */
  ["p50", "p95", "p99", "max"]
);
var FIGURES = (
  /** @type {const} */
  ["ready", "pushed", "succeeded", "discarded", "failed", "retried"]
);
var MAX_BARS = 12;
function joined(buckets) {
  const size = Math.ceil(buckets.length / MAX_BARS);
  const end = buckets.length % size;
  const bars = [];
  for (let at2 = end - (end ? size : 0); at2 < buckets.length; at2 += size) {
    const part = buckets.slice(Math.max(0, at2), at2 + size);
    bars.push({
      le_ms: part.at(-1)?.le_ms ?? null,
      count: part.reduce((sum2, bucket) => sum2 + bucket.count, 0)
    });
  }
  return bars;
}
function Spread({ title: title2, spread, histogram }) {
  const first = histogram.findIndex((bucket) => bucket.count > 0);
  const last = histogram.findLastIndex((bucket) => bucket.count > 0);
  const shown2 = first < 0 ? [] : joined(histogram.slice(first, last + 1));
  const most = Math.max(1, ...shown2.map((bucket) => bucket.count));
  return html`<section class="card">
      <h2>${title2}</h2>${!spread ? html`<p class="muted">${t("names.nothing")}</p>` : html`<dl class="facts">
              ${SPREAD.map(
    (key) => html`<dt key=${key}>${t(`names.${key}`)}</dt><dd><${Duration} ms=${spread[`${key}_ms`]} /></dd>`
  )}
            </dl>
            <table class="histogram">
              <caption class="sr">${title2}</caption>
              <thead class="sr">
                <tr>
                  <th scope="col">${t("job.duration")}</th><th scope="col">${t("names.count")}</th><td></td>
                </tr>
              </thead>
              <tbody>
                ${shown2.map(
    (bucket) => html`<tr key=${bucket.le_ms}>
                        <td class="end num">
                          ${bucket.le_ms === null ? "∞" : html`≤ ${durationText(bucket.le_ms)}`}
                        </td>
                        <td class="end"><${Num} value=${bucket.count} /></td>
                        <td class="wide">
                          <${Bar} value=${bucket.count} of=${most} label=${t("names.count")} />
                        </td>
                      </tr>`
  )}
              </tbody>
            </table>`}
    </section>`;
}
function Contracts({ name, mayOperate, onRemoved }) {
  const [isAsking, setIsAsking] = E2(false);
  const { contracts = [], warnings = [] } = name;
  if (!contracts.length && !warnings.length) return null;
  return html`<section class="card after" aria-labelledby="contracts">
      <h2 id="contracts">${t("names.contracts")}</h2>
      ${warnings.map(
    (one) => html`<p key=${one.code} role="note"><${Badge} kind="warn">${t("names.warning")}<//> ${tOr(`names.warning.${one.code}`, visible(one.text))}</p>`
  )}
      ${contracts.map(
    (one, n) => html`<details key=${n} open=${n === 0}>
            <summary>
              <strong>${t("names.contract", { version: visible(one.version) || "–" })}</strong>
              <span class="muted">
                ${t("names.contract.workers", { n: number(one.live_workers) })} · <${Time}
                  at=${one.told_at} />
              </span>
            </summary>
            ${one.argument_schema === null ? html`<p class="muted">${t("names.contract.any")}</p>` : html`<${Value} value=${one.argument_schema} label=${t("names.contract.schema")} />`}
            ${Object.keys(one.options).length > 0 && html`<${Value} value=${one.options} label=${t("names.contract.options")} />`}
          </details>`
  )}
      ${mayOperate && contracts.length > 0 && html`<p><${Button} kind="danger" onClick=${() => setIsAsking(true)}>${t("names.contracts.remove")}<//></p>`}
      ${isAsking && html`<${Sure} title=${t("names.contracts.remove")} verb=${t("names.contracts.remove")} onClose=${() => setIsAsking(false)}
      onConfirm=${async () => {
    await del(`api/contracts/${encodeURIComponent(name.name)}`);
    onRemoved();
  }}><p>${t("names.contracts.remove.text", { name: visible(name.name) })}</p><//>`}
    </section>`;
}

// jobs/failure_dialogs.js
var MAX_OTHERS = 500;
var CUT_AT = 200;
var pathOf3 = (group, call2) => (
  /** @type {const} */
  `api/failures/${encodeURIComponent(group.id)}/${call2}`
);
function FailureDialog({ question, ...props }) {
  const dialogs = { ignore: Ignore, assign: Assign, resolve: Resolve, merge: Merge, values: Affected };
  return html`<${dialogs[question]} ...${props} />`;
}
var What = ({ group }) => html`<p>
      <strong><${Text} value=${group.name} max=${100} /></strong>
      ${!group.message_hidden && html` <span class="muted"><${Text} value=${group.message} max=${120} /></span>`}
    </p>`;
function Ignore({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ ignored: "", reason: "" }));
  const save = async ({ reason = "", ignored = "" }) => {
    const end = endOf(ignored);
    if (ignored.trim() && end === null) throw unreadable("duration_s");
    const length = end !== null && { duration_s: Math.ceil((end - nowMs()) / 1e3) };
    await post(pathOf3(group, "ignore"), { reason, ...length });
    await onDone();
    const undo = () => attempt(() => del(pathOf3(group, "ignore")), t("failures.unignored")).then(onDone);
    return { text: t("failures.ignoring"), undo };
  };
  return html`<${FormDialog}
      title=${t("failures.ignore.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("failures.ignore")}>
      <${What} group=${group} /><p class="muted">${t("failures.ignore.text")}</p>
      <${DurationField}
        form=${form} name="ignored" path="duration_s" label=${t("failures.ignore.for")}
        empty=${`${t("failures.until.changes")}. ${t("failures.changes")}`} />
      <${FormField} form=${form} name="reason" label=${t("pause.reason")} maxlength="500" />
    <//>`;
}
function Assign({ group, who, onClose, onDone }) {
  const form = useForm(null, () => ({ assignee: group.assigned?.assignee ?? who }));
  const save = async ({ assignee = "" }) => {
    await (assignee ? post(pathOf3(group, "assign"), { assignee }) : del(pathOf3(group, "assign")));
    await onDone();
    return assignee ? t("failures.assigned", { assignee: visible(assignee) }) : t("failures.unassigned");
  };
  return html`<${FormDialog} title=${t("failures.assign.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("failures.assign")}>
    <${What} group=${group} />
    <${FormField} form=${form} name="assignee" label=${t("failures.assignee")} hint=${t("failures.assignee.hint")} maxlength="100" spellcheck=${false} /><//>`;
}
function Resolve({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ version: "" }));
  const save = async ({ version = "" }) => {
    await post(pathOf3(group, "resolve"), { version });
    await onDone();
    const undo = () => attempt(() => del(pathOf3(group, "resolve")), t("failures.reopened")).then(onDone);
    return { text: t("failures.resolving"), undo };
  };
  return html`<${FormDialog}
      title=${t("failures.resolve.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("failures.resolve")}>
      <${What} group=${group} /><p class="muted">${t("failures.resolve.text")}</p>
      <${FormField}
        form=${form} name="version" label=${t("failures.resolve.version")} hint=${t("failures.resolve.hint")}
        maxlength="64" spellcheck=${false} placeholder=${t("failures.resolve.next")} />
    <//>`;
}
function Merge({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ into: "" }));
  const [others, setOthers] = E2(
    /** @type {FailureGroup[] | null} */
    null
  );
  W2(() => {
    const aborter = new AbortController();
    get("api/failures", { name: group.name, limit: MAX_OTHERS }, aborter.signal).then(
      (answer) => setOthers(answer.groups.filter((one) => one.id !== group.id)),
      (error) => {
        if (!aborter.signal.aborted) form.setProblem(error);
      }
    );
    return () => aborter.abort();
  }, [group.id]);
  const save = async ({ into = "" }) => {
    await post(pathOf3(group, "merge"), { into });
    await onDone();
    const undo = () => attempt(() => del(pathOf3(group, "merge")), t("failures.split.done")).then(onDone);
    return { text: t("failures.merge.done"), undo };
  };
  if (others?.length === 0)
    return html`<${Dialog} title=${t("failures.merge.title")} onClose=${onClose}>
        <${What} group=${group} /><p>${t("failures.merge.none")}</p>
        <footer><${Button} onClick=${onClose}>${t("close")}<//></footer>
      <//>`;
  return html`<${FormDialog}
      title=${t("failures.merge.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("failures.merge")}>
      <${What} group=${group} /><p class="muted">${t("failures.merge.text")}</p>
      <${FormField} form=${form} name="into" path="into" as="select" label=${t("failures.merge.into")}>
        <option value="">${t("failures.merge.choose")}</option>
        ${(others ?? []).map(
    (one) => html`<option key=${one.id} value=${one.id}>${visible(`${one.count} × ${one.message || one.error_type || one.id}`).slice(0, 120)}</option>`
  )}
      <//>
    <//>`;
}
function Affected({ group, onClose }) {
  const [path, setPath] = usePref("failures.path", "argument");
  const [found, setFound] = E2(
    /** @type {AffectedValues | null} */
    null
  );
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  W2(() => {
    const aborter = new AbortController();
    const url = (
      /** @type {const} */
      `api/failures/${encodeURIComponent(group.id)}/values`
    );
    get(url, { path }, aborter.signal).then(
      (answer) => {
        setFound(answer);
        setProblem(null);
      },
      (error) => {
        if (aborter.signal.aborted) return;
        setFound(null);
        setProblem(error);
      }
    );
    return () => aborter.abort();
  }, [group.id, path]);
  return html`<${Dialog} title=${t("failures.values.title")} onClose=${onClose}>
      <${What} group=${group} />
      <${FilterInput}
        type="text" label=${t("failures.values.path")} hint=${t("failures.values.hint")} value=${path}
        list="failure-paths" onChange=${(text) => text && setPath(text)} />
      <datalist id="failure-paths">
        ${(found?.paths ?? []).map((one) => html`<option key=${one} value=${one} />`)}
      </datalist>
      <${ErrorBox} problem=${problem} />
      ${found ? html`<${Values} found=${found} path=${path} group=${group} />` : html`<${Loading} isLoading=${!problem} />`}
      <footer><${Button} onClick=${onClose}>${t("close")}<//></footer>
    <//>`;
}
function Values({ found, path, group }) {
  const most = Math.max(1, ...found.values.map((one) => one.count));
  const share = (count) => number(count / Math.max(1, found.examined), { style: "percent", maximumFractionDigits: 0 });
  const notes = [
    t("failures.values.examined", { count: found.examined }),
    found.without > 0 && t("failures.values.without", { without: number(found.without) }),
    !found.is_complete && t("failures.values.more")
  ].filter(Boolean);
  if (found.values.length === 0)
    return html`<p class="muted">${t("failures.values.none")}</p><p class="muted small">${notes.join(" · ")}</p>`;
  return html`<p>
      <strong>${t("failures.values.distinct", { count: found.distinct })}</strong> <span class="muted small">
        ${notes.join(" · ")}
      </span>
    </p>
    <table class="affected">
      <thead>
        <tr>
          <th scope="col">${t("failures.values.value")}</th>
          <th scope="col" class="num">${t("failures.values.jobs")}</th>
          <th scope="col" class="num">${t("failures.values.share")}</th>
        </tr>
      </thead>
      <tbody>
        ${found.values.map(
    (one) => html`<tr key=${one.value}>
                <th scope="row"><${ValueLink} value=${one.value} path=${path} group=${group} /></th>
                <td class="num">
                  <i
                    class="affected-bar" style=${{ width: `${60 * one.count / most}%` }} aria-hidden="true"></i>
                  <${Num} value=${one.count} />
                </td>
                <td class="num">${share(one.count)}</td>
              </tr>`
  )}
      </tbody>
    </table>`;
}
function ValueLink({ value, path, group }) {
  const text = html`<code><${Text} value=${value} max=${220} /></code>`;
  const isCut2 = value.length === CUT_AT;
  if (isCut2 || /^[[{]/.test(value)) return text;
  return html`<a href=${href("jobs", { state: "failed", failure_group: group.id, field: path, op: "eq", value })}>${text}</a>`;
}

// ui/sparkline.js
var WIDTH = 5;
var GAP2 = 1;
var HEIGHT = 28;
function Sparkline({ values: values2, label }) {
  const most = Math.max(1, ...values2);
  const width = values2.length * (WIDTH + GAP2) - GAP2;
  return html`<svg
      class="sparkline" role="img" aria-label=${label} width=${width} height=${HEIGHT} preserveAspectRatio="xMaxYMax"
      viewBox=${`0 0 ${width} ${HEIGHT}`}>
      <title>${label}</title>${values2.map((value, at2) => {
    const height = value > 0 ? Math.max(2, value / most * HEIGHT) : 1;
    return html`<rect key=${at2} class=${value > 0 ? "" : "none"} x=${at2 * (WIDTH + GAP2)} y=${HEIGHT - height} width=${WIDTH} height=${height} />`;
  })}
    </svg>`;
}

// jobs/failure_groups.js
var MARKS2 = { new: "info", regressed: "warn" };
var isIgnored = (group) => Boolean(group.ignored) && group.ignored?.ended_by === null;
var isResolved = (group) => Boolean(group.resolved) && group.resolved?.reopened_by === null;
var ASKED = (
  /** @type {const} */
  ["values", "assign", "merge"]
);
function FailureCard({ group, session: session2, count = group.count, still, onAct, onAsk, onChange }) {
  const mayOperate = may(session2, "operate");
  const message = group.message || t("failures.silent");
  return html`<li class=${`card group ${isIgnored(group) || isResolved(group) ? "is-ignored" : ""}`}>
      <div class="group-count">
        <p><b><${Num} value=${count} /></b> <span class="muted">${t("failures.failed", { count })}</span></p>
        ${still && html`<p class="still">${stillText(still)}</p>`}
        <${Trend} group=${group} />
      </div>
      <div class="group-body">
        <p class="group-head">
          <a href=${href("names", { name: group.name })}>
            <strong><${Text} value=${group.name} max=${100} /></strong>
          </a> <${Badge} kind="bad">${tOr(`cause.${group.cause}`, visible(group.cause))}<//>
          ${(group.marks ?? []).map(
    (mark) => html` <span title=${tOr(`failures.mark.${mark}.rule`, "")}>
                  <${Badge} kind=${MARKS2[mark] ?? "info"}>${tOr(`failures.mark.${mark}`, visible(mark))}<//>
                </span>`
  )}
          <${Decisions} group=${group} />
          ${group.example_job_id && html`<span class="group-example muted">
                ${t("failures.example")} <${Id}
                  id=${group.example_job_id} href=${href("job", { id: group.example_job_id })} />
              </span>`}
        </p>
        ${group.message_hidden ? html`<p class="muted">${group.error_type && html`<code><${Text} value=${group.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>` : html`<p class="group-message" title=${visible(message)}><${Text} value=${message} max=${300} /></p>`}
        <p class="group-more muted">
          <${Versions} group=${group} />
          ${group.raised_at && html`<code title=${visible(group.raised_at.code)}>
                <${Text} value=${group.raised_at.file} max=${60} />
              </code> <${Text} value=${group.raised_at.function} max=${60} /> · `}
          ${t("failures.last")} <${Time} at=${group.last_seen_at} /> · ${t("failures.first")} <${Time}
            at=${group.first_seen_at} />
        </p>
        <${Ignored} group=${group} />
        <${Merged} group=${group} mayOperate=${mayOperate} onChange=${onChange} />
      </div>
      <${Actions2} group=${group} session=${session2} onAct=${onAct} onAsk=${onAsk} onChange=${onChange} />
    </li>`;
}
function Actions2({ group, session: session2, onAct, onAsk, onChange }) {
  const mayOperate = may(session2, "operate");
  const isCovered = group.message_hidden && !mayOperate;
  const undo = (call2, done) => attempt(() => del(pathOf3(group, call2)), done).then(onChange);
  return html`<div class="group-acts">
        <a
          class="button small as-link" href=${href(
    "jobs",
    isCovered ? { state: "failed", name: group.name, cause: group.cause } : { state: "failed", failure_group: group.id }
  )}>
          ${t("failures.jobs")}
        </a>
        ${mayOperate && html`<${Button} opensDialog class="small" onClick=${() => onAct("retry", group)}>
              ${t("action.retry")}
            <//>
            ${isResolved(group) ? html`<${Button} class="small" onClick=${() => undo("resolve", t("failures.reopened"))}>${t("failures.reopen")}<//>` : html`<${Button} opensDialog class="small" onClick=${() => onAsk("resolve", group)}>${t("failures.resolve")}<//>`}
            <${MoreMenu} label=${t("failures.more")}>
              ${ASKED.map(
    (what) => html`<${Button} key=${what} opensDialog class="small" onClick=${() => onAsk(what, group)}>${t(`failures.${what}`)}<//>`
  )}
              ${isIgnored(group) ? html`<${Button} class="small" onClick=${() => undo("ignore", t("failures.unignored"))}>${t("failures.unignore")}<//>` : html`<${Button} opensDialog class="small" onClick=${() => onAsk("ignore", group)}>${t("failures.ignore")}<//>`}
              <${Button} opensDialog class="small" kind="danger" onClick=${() => onAct("delete", group)}>
                ${t("action.delete")}
              <//>
            <//>`}
      </div>`;
}
function Decisions({ group }) {
  const { assigned, resolved: resolved2 } = group;
  return html`${assigned && html` <span title=${`${t("failures.assigned.by")} ${visible(assigned.by)}`}>
        <${Badge} kind="info">${t("failures.assigned.to", { assignee: visible(assigned.assignee) })}<//>
      </span>`}
    ${resolved2 && html` <span title=${`${t("audit.by")} ${visible(resolved2.by)}`}><${Badge} kind=${resolved2.reopened_by === null ? "ok" : "warn"}>${resolved2.reopened_by === null ? resolved2.version ? t("failures.resolved.in", { version: visible(resolved2.version) }) : t("failures.resolved.next") : t("failures.reopened.by", { version: visible(resolved2.reopened_by) })}<//></span>`}`;
}
function Trend({ group }) {
  const trend = group.trend ?? [];
  if (trend.length === 0) return null;
  const count = trend.reduce((sum2, one) => sum2 + one, 0);
  const label = t("failures.trend", { count, most: Math.max(...trend), last: trend.at(-1) ?? 0 });
  return html`<${Sparkline} values=${trend} label=${label} /><span class="muted small">${t("failures.day", { count })}</span>`;
}
function Versions({ group }) {
  const versions = group.versions ?? [];
  if (versions.length === 0) return null;
  return html`<span>${t("failures.versions")} ${versions.map(
    (seen, at2) => html`${at2 > 0 && " · "}<${Text} value=${seen.version} max=${40} /> <span class="num">(${number(seen.count)})</span>`
  )} · </span>`;
}
function Merged({ group, mayOperate, onChange }) {
  const merged = group.merged ?? [];
  if (merged.length === 0) return null;
  const split2 = (id) => attempt(() => del(`api/failures/${encodeURIComponent(id)}/merge`), t("failures.split.done")).then(
    onChange
  );
  return html`<ul class="plain" aria-label=${t("failures.merged")}>
      ${merged.map(
    (one) => html`<li key=${one.id} class="muted">
              ${t("failures.merged")} <${Num} value=${one.count} /> × <${Text}
                value=${one.message || one.id} max=${160} /> ${mayOperate && html`<button type="button" class="link" onClick=${() => split2(one.id)}>${t("failures.split_off")}</button>`}
            </li>`
  )}
    </ul>`;
}
function Ignored({ group }) {
  const { ignored } = group;
  if (!ignored) return null;
  if (ignored.ended_by !== null)
    return html`<p class="muted">${tOr(`failures.ended.${ignored.ended_by}`, t("failures.ended"))}</p>`;
  return html`<p>
      <${Badge} kind="off">${t("failures.ignored")}<//> <span class="muted">
        ${t("audit.by")} <${Text} value=${ignored.by} max=${80} /> · <${Time} at=${ignored.at} /> · ${ignored.until ? html`${t("failures.until")} <${Time} at=${ignored.until} />` : t("failures.until.changes")}
        ${ignored.reason && html` · <${Text} value=${ignored.reason} max=${200} />`}
      </span>
    </p>`;
}

// jobs/pages/failures.js
var PAGE5 = 50;
var ALL3 = 500;
var SHOWN2 = { "": { open: "true" }, resolved: { resolved: "true" }, ignored: { ignored: "true" }, all: {} };
var SPLITS = ["name", "version"];
var TYPED = (
  /** @type {const} */
  [
    ["q", "failures.contains"],
    ["name", "filter.name"],
    ["version", "failures.version"],
    ["assignee", "failures.assignee"]
  ]
);
function Page5({ query, go: go3, session: session2 }) {
  const [dialog, setDialog] = E2(
    /** @type {{action: import("../actions.js").ActionName, isRecounted: boolean, target: import("../actions.js").Target} | null} */
    null
  );
  const [asked, setAsked] = E2(
    /** @type {import("../failure_dialogs.js").Asked | null} */
    null
  );
  const hold = useHold();
  const show2 = query["show"] && query["show"] in SHOWN2 ? query["show"] : "";
  const split2 = SPLITS.includes(query["split"] ?? "") ? query["split"] ?? "" : "";
  const found = useFailures(query, show2, split2);
  const [done, setDone] = E2(0);
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.groups ?? [],
    idOf,
    hold.isHeld || dialog !== null || asked !== null,
    `${found.data?.of} ${done}`
  );
  const reload = async () => {
    await found.reload();
    setDone((n) => n + 1);
  };
  const { still, reload: recount } = useStillFailed(rows, done);
  useActionEnds(() => {
    void found.reload();
    void recount();
  });
  const act = (action, group) => setDialog({ action, isRecounted: true, target: failedUntilNow(group) });
  const ask3 = (question, group) => setAsked({ question, group });
  const card = (group, count) => html`<${FailureCard}
        key=${group.id} group=${group} count=${count} still=${still.get(group.id)} session=${session2}
        onAct=${act} onAsk=${ask3} onChange=${reload} />`;
  const isFiltered = TYPED.some(([key]) => query[key]);
  return html`<div class="page-head"><h1>${t("nav.failures")}</h1></div>
    <${Choices} query=${query} show=${show2} split=${split2} go=${go3} />
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div ...${hold.bind}>
      <${NewRows} count=${newCount} onShow=${showNew} />
      ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : rows.length === 0 ? html`<div class="card"><${Empty} title=${emptyText(isFiltered, show2)} /></div>` : split2 ? html`<${Parts} parts=${partsOf(rows, split2)} card=${card} />` : html`<ul class="groups">${rows.map((group) => card(group, group.count))}</ul>`}
    </div>
    <p class="muted after">${t("failures.mark.new.rule")} ${t("failures.mark.regressed.rule")}</p>
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go3("failures", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => go3("failures", { ...query, cursor: "" }, { replace: true })} />
    ${dialog && html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {
  }} />`}
    ${asked && html`<${FailureDialog} ...${asked} who=${session2.who ?? ""} onClose=${() => setAsked(null)} onDone=${reload} />`}`;
}
function useFailures(query, show2, split2) {
  const { q: q3, name, version, assignee, cursor } = query;
  const of2 = JSON.stringify([q3, name, version, assignee, cursor, show2, split2]);
  const wanted = { q: q3, name, version, ...SHOWN2[show2], assignee, cursor, limit: split2 ? ALL3 : PAGE5 };
  return useResource(async (signal) => ({ ...await get("api/failures", wanted, signal), of: of2 }), [of2], {
    events: ["jobs"],
    leastMs: 2e3,
    everyMs: 1e4
  });
}
var failedUntilNow = ({ id }) => ({
  filter: { state: "failed", failure_group: id, finished_before: new Date(nowMs()).toISOString() }
});
var emptyText = (isFiltered, show2) => t(
  isFiltered ? "failures.empty.filtered" : show2 === "ignored" || show2 === "resolved" ? `failures.empty.${show2}` : "failures.empty"
);
function Choices({ query, show: show2, split: split2, go: go3 }) {
  return html`<${Tabs}
      label=${t("nav.failures")} current=${show2} tabs=${Object.keys(SHOWN2).map((key) => ({
    key,
    label: t(`failures.show.${key || "open"}`),
    href: href("failures", { ...query, cursor: "", show: key })
  }))} />
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      ${TYPED.map(
    ([key, label]) => html`<${FilterInput}
              key=${key} label=${t(label)} value=${query[key] ?? ""}
              onChange=${(text) => go3("failures", { ...query, cursor: "", [key]: text }, { replace: true })} />`
  )}
    </form>
    <nav class="row group-by" aria-label=${t("failures.split")}>
      <span class="muted">${t("failures.split")}</span>
      ${["", ...SPLITS].map(
    (key) => html`<a
              class="chip-link" href=${href("failures", { ...query, cursor: "", split: key })}
              aria-current=${key === split2 ? "page" : void 0}>
              ${t(`failures.split.${key || "none"}`)}
            </a>`
  )}
    </nav>`;
}
function Parts({ parts, card }) {
  return parts.map(
    (part) => html`<section class="after" key=${part.key}>
          <h2>
            <${Text} value=${part.key || t("failures.no_version")} max=${100} /> <span class="muted">
              <${Num} value=${part.count} /> ${t("failures.failed", { count: part.count })}
            </span>
          </h2>
          <ul class="groups">${part.groups.map(([group, count]) => card(group, count))}</ul>
        </section>`
  );
}
var idOf = (group) => group.id;
function partsOf(groups, split2) {
  const parts = /* @__PURE__ */ new Map();
  for (const group of groups) {
    const of2 = split2 === "name" ? [[group.name, group.count]] : group.versions?.length ? group.versions.map((seen) => [seen.version, seen.count]) : [["", group.count]];
    for (const [key, count] of of2) {
      const part = parts.get(key) ?? { key, count: 0, groups: [] };
      part.count += count;
      part.groups.push([group, count]);
      parts.set(key, part);
    }
  }
  return [...parts.values()].sort((a2, b2) => b2.count - a2.count || a2.key.localeCompare(b2.key));
}

// ui/absent.js
function Absent({ page, title: title2, found, children }) {
  const list = t(`nav.${page}`);
  if (found.problem?.status === 404)
    return html`<h1>${list}</h1>
      <div class="card">
        <${Empty} title=${title2}>${children}<p><a href=${href(page)}>${list}</a></p><//>
      </div>`;
  return html`<h1>${list}</h1><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />${!found.problem && html`<${Loading} />`}`;
}

// batches/members.js
var MEMBERS = 25;
var MAX_PAGES = 10;
var ALL4 = "all";
function shownState(batch, state) {
  if (state && STATES[state]) return state;
  return state !== ALL4 && batch.counts.failed > 0 ? "failed" : "";
}
var idOf2 = (one) => one.id;
async function loadMembers(batch, query, signal) {
  const wanted = { ...query, batch: batch.id, order: "oldest", include: MEMBERS_INCLUDE };
  const jobs = [];
  let cursor = query.cursor;
  for (let page = 0; page < MAX_PAGES && jobs.length < MEMBERS; page += 1) {
    const found = await get("api/jobs", { ...wanted, cursor, limit: MEMBERS - jobs.length }, signal);
    jobs.push(...found.jobs);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { jobs, next_cursor: cursor };
}
function Members({ batch, query, go: go3 }) {
  const hold = useHold();
  const state = shownState(batch, query["state"]);
  const cursor = query["cursor"] ?? null;
  const of2 = JSON.stringify([batch.id, state, cursor]);
  const found = useResource(
    async (signal) => ({ ...await loadMembers(batch, { state, cursor }, signal), of: of2 }),
    [of2],
    // Load rarely if a load takes many requests: a large batch with few jobs in the wanted state.
    { events: ["jobs"], leastMs: state && batch.counts.total > 5e3 ? 1e4 : 2e3, everyMs: 1e4 }
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.jobs ?? [],
    idOf2,
    hold.isHeld,
    found.data?.of ?? ""
  );
  const columns3 = useMemberColumns(rows);
  const shown2 = { id: batch.id, state: state || ALL4 };
  const counts = (
    /** @type {Record<string, number | null | undefined>} */
    { ...batch.counts }
  );
  const states = Object.keys(STATES).filter(
    (one) => one === state || counts[one] === null || (counts[one] ?? 0) > 0
  );
  const tabs = [
    {
      key: "",
      label: t("batches.state.all"),
      count: batch.counts.total,
      href: href("batches", { id: batch.id, state: ALL4 })
    },
    ...states.map((one) => ({
      key: one,
      label: tOr(`state.${one}`, one),
      ...typeof counts[one] === "number" && { count: counts[one] },
      href: href("batches", { id: batch.id, state: one })
    }))
  ];
  return html`<section class="after" aria-labelledby="members">
      <div class="page-head">
        <h2 id="members">${t("batches.members")}</h2>
        <a class="button small as-link" href=${href("jobs", { batch: batch.id, state })}>
          ${t("batches.members.jobs")}
        </a>
      </div>
      <${Tabs} label=${t("job.state")} tabs=${tabs} current=${state} />
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
              <${NewRows} count=${newCount} onShow=${showNew} />
              <${Table}
                isFixed caption=${t("nav.jobs")} rows=${rows} rowKey=${idOf2}
                label=${(job) => job.name}
                onOpen=${(job) => go3("job", { id: job.id })}
                columns=${columns3}
                empty=${html`<div class="card"><p class="muted">${t(found.data.next_cursor ? "jobs.empty.so_far" : "batches.members.none")}</p></div>`} />
            </div>`}
      <${Pager}
        hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${cursor !== null} isLoading=${found.isLoading}
        onNext=${() => go3("batches", { ...shown2, cursor: found.data?.next_cursor })}
        onFirst=${() => go3("batches", shown2)} />
    </section>`;
}

// batches/one.js
var READ = { events: ["jobs", "batches"], leastMs: 2e3, everyMs: 5e3, pollMs: 5e3 };
function One2({ id, query, go: go3, session: session2 }) {
  const [dialog, setDialog] = E2("");
  const path = (
    /** @type {const} */
    `api/batches/${encodeURIComponent(id)}`
  );
  const found = useResource(
    async (signal) => {
      const [batch2, why2, flow2] = await Promise.all([
        get(path, {}, signal),
        get(`${path}/why`, {}, signal),
        loadFlow(`${path}/flow`, signal)
      ]);
      return { batch: batch2, why: why2, flow: flow2 };
    },
    [id],
    READ
  );
  const batch = found.data?.batch;
  useTitle(batch ? `${shareOf(batch)} % · ${titleOf(batch)} · ${t("batches.batch")}` : null);
  if (!found.data || !batch)
    return html`<${Absent} page="batches" title=${t("batches.unknown")} found=${found}>
      <p><code>${visible(id)}</code></p><p>${t("batches.unknown.text")}</p><//>`;
  const { why, flow } = found.data;
  return html`<p class="crumbs">
      <a href=${href("batches")}>${t("nav.batches")}</a>
      ${batch.batch && html` / <a href=${href("batches", { id: batch.batch })}>…${visible(batch.batch.slice(-10))}</a>`}
    </p>
    <div class="page-head job-head">
      <h1><${Text} value=${titleOf(batch)} max=${120} /></h1><${BatchState} batch=${batch} />
    </div>
    <div class="row job-id">
      <code class="id">${visible(batch.id)}</code> <${CopyMenu}>
        <${Copy} text=${batch.id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(batch, 2)} label=${t("copy.json")} />
      <//>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <${Actions3} batch=${batch} session=${session2} onAsk=${setDialog} />
    <${Progress2} batch=${batch} />
    <div class="job-grid">
      <div class="stack"><${BatchWhy} batch=${batch} why=${why} /><${Callbacks} batch=${batch} /></div>
      <div class="stack"><${Facts2} batch=${batch} /></div>
    </div>
    ${flow && html`<section class="card after" aria-labelledby="flow">
          <h2 id="flow">${t("flow")}</h2>
          <${Flow} key=${id} flow=${flow} session=${session2} onChange=${found.reload} />
        </section>`}
    <${Members} batch=${batch} query=${query} go=${go3} />
    ${dialog && html`<${Ask} key=${dialog} action=${dialog} batch=${batch} path=${path} onClose=${() => setDialog("")} onDone=${found.reload} />`}`;
}
function Actions3({ batch, session: session2, onAsk }) {
  const mayPush = may(session2, "push");
  const isCanceled = batch.canceled_at !== null;
  const retryable = batch.counts.failed + batch.batches.failed;
  return html`<div class="row actions" role="group" aria-label=${t("batches.actions")}>
      ${mayPush && batch.state === "open" && !isCanceled && html`<${Button} opensDialog kind="primary" onClick=${() => onAsk("seal")}>${t("batches.seal")}<//>`}
      ${may(session2, "operate") && retryable > 0 && html`<${Button} opensDialog kind=${batch.state === "open" ? "" : "primary"} onClick=${() => onAsk("retry")}>${t("batches.retry")}<//>`}
      ${mayPush && batch.state !== "complete" && !isCanceled && html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("cancel")}>${t("batches.cancel")}<//>`}
    </div>`;
}
function Progress2({ batch }) {
  const { total, unfinished: unfinished2 } = batch.counts;
  const counts = countsOf(batch);
  return html`<section class="card" aria-label=${t("batches.over")}>
      <p class="batch-over">
        <b class="num">${number(shareOf(batch))} %</b> <span>
          ${t("batches.over_of", { over: total - unfinished2, total })}
        </span>
        ${batch.batches.total > 0 && html` <span class="muted">${t("batches.inside_of", { over: batch.batches.succeeded + batch.batches.failed, total: batch.batches.total })}</span>`}
      </p>
      <${BatchStrip} batch=${batch} />
      <ul class="batch-counts">
        ${counts.map(
    ([state, count]) => html`<li key=${state}>
                ${state === "unfinished" ? html`<span class="muted">${t("batches.unfinished")}</span>` : html`<${State} state=${state} />`} <b class="num">${number(count)}</b>
              </li>`
  )}
        ${batch.counts.deleted > 0 && html`<li><span class="muted">${t("batches.deleted")}</span> <b class="num">${number(batch.counts.deleted)}</b></li>`}
      </ul>
    </section>`;
}
function Facts2({ batch }) {
  const isLong = batch.description !== titleOf(batch) && batch.description !== "";
  const end = batch.completed_at ?? null;
  return html`<section class="card">
      <h2>${t("job.facts")}</h2>
      <dl class="facts">
        <dt>${t("job.created")}</dt><dd><${Time} at=${batch.created_at} /></dd>
        ${end && html`<dt>${t("batches.completed")}</dt>
            <dd>
              <${Time} at=${end} /> <span class="muted">
                ${t("batches.after")} <${Duration} ms=${Date.parse(end) - Date.parse(batch.created_at)} />
              </span>
            </dd>`}
        ${batch.canceled_at && html`<dt>${t("batches.canceled")}</dt><dd><${Time} at=${batch.canceled_at} /></dd>`}
        ${batch.expires_at && html`<dt>${t("job.expires")}</dt><dd><${Time} at=${batch.expires_at} /></dd>`}
        ${batch.batch && html`<dt>${t("batches.parent")}</dt><dd><${Id} id=${batch.batch} href=${href("batches", { id: batch.batch })} /></dd>`}
        ${batch.batches.total > 0 && html`<dt>${t("batches.children")}</dt>
            <dd>
              <${Num} value=${batch.batches.total} /> <span class="muted">
                ${t("batches.children.of", {
    succeeded: batch.batches.succeeded,
    failed: batch.batches.failed
  })}
              </span>
            </dd>`}
        ${batch.tags.length > 0 && html`<dt>${t("job.tags")}</dt>
            <dd>
              ${batch.tags.map(
    (tag) => html`<a key=${tag} class="chip" href=${href("batches", { tag })}><${Text} value=${tag} max=${64} /></a> `
  )}
            </dd>`}
        ${isLong && html`<dt>${t("batches.description")}</dt><dd><${Text} value=${batch.description} max=${500} isBlock /></dd>`}
      </dl>
    </section>`;
}
function Ask({ action, batch, path, onClose, onDone }) {
  const { counts } = batch;
  const count = action === "retry" ? counts.failed : counts.unfinished;
  const inside = action === "seal" ? 0 : batch.batches.total;
  const confirm = async () => {
    await post(`${path}/${action}`);
    toast(t(`batches.${action}.done`));
    await onDone();
  };
  return html`<${ConfirmCount}
      title=${t(`batches.${action}.title`)} count=${count} counted=${t(`batches.${action}.count`, { count })}
      isAlways verb=${t(`batches.${action}`)} kind=${action === "cancel" ? "danger" : "primary"}
      onClose=${onClose} onConfirm=${confirm}>
      <p>${t(`batches.${action}.text`)}</p>
      ${inside > 0 && html`<p>${t("batches.also_inside", { count: inside })}</p>`}
      ${action === "retry" && (counts.gone ?? 0) > 0 && html`<p class="warning" role="note">${t("batches.retry.gone", { count: counts.gone ?? 0 })}</p>`}
      ${action === "cancel" && batch.callbacks.on_complete?.state === "waiting" && html`<p><${Badge} kind="info">${t("batches.on_complete")}<//> ${t("batches.cancel.cleanup", { name: visible(batch.callbacks.on_complete.name) })}</p>`}
    <//>`;
}

// batches/pages/batches.js
var PAGE6 = 50;
var BATCH_STATES = ["", "open", "sealed", "complete"];
var EXAMPLE = {
  description: "Thumbnails of album 7",
  on_success: { name: "album.publish", argument: { album: 7 } }
};
function Page6({ query, go: go3, session: session2 }) {
  return query["id"] ? html`<${One2} key=${query["id"]} id=${query["id"]} query=${query} go=${go3} session=${session2} />` : html`<${List2} query=${query} go=${go3} session=${session2} />`;
}
function List2({ query, go: go3, session: session2 }) {
  const hold = useHold();
  const state = BATCH_STATES.includes(query["state"] ?? "") ? query["state"] ?? "" : "";
  const wanted = { q: query["q"] ?? "", tag: query["tag"] ?? "", state };
  const of2 = JSON.stringify([wanted, query["cursor"]]);
  const found = useResource(
    async (signal) => ({
      ...await get("api/batches", { ...wanted, cursor: query["cursor"], limit: PAGE6 }, signal),
      of: of2
    }),
    [of2],
    READ
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.batches ?? [],
    idOf2,
    hold.isHeld,
    found.data?.of ?? ""
  );
  const change2 = (changes) => go3("batches", { ...wanted, ...changes }, { replace: true });
  const isFiltered = Boolean(wanted.q || wanted.tag || state);
  return html`<div class="page-head"><h1>${t("nav.batches")}</h1></div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      <${FilterInput}
        label=${t("batches.contains")} value=${wanted.q}
        onChange=${(q3) => change2({ q: q3 })} />
      <${FilterChoice}
        label=${t("job.state")} value=${state}
        options=${BATCH_STATES.map((one) => [one, t(`batches.state.${one || "all"}`)])}
        onChange=${(one) => change2({ state: one })} />
      <${FilterInput}
        label=${t("batches.tag")} value=${wanted.tag}
        onChange=${(tag) => change2({ tag })} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${NewRows} count=${newCount} onShow=${showNew} />
            <${Table}
              isFixed caption=${t("nav.batches")} rows=${rows} rowKey=${idOf2} label=${titleOf}
              onOpen=${(one) => go3("batches", { id: one.id })}
              columns=${COLUMNS.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<div class="card">
                  <${Empty}
                    title=${t(
    found.data.next_cursor ? "jobs.empty.so_far" : isFiltered ? "batches.empty.filtered" : "batches.empty"
  )}
                    ...${!isFiltered && { curl: curl(session2, "POST", "api/batches", { body: EXAMPLE }) }}>
                    ${isFiltered && html`<p><a href=${href("batches")}>${t("filter.clear")}</a></p>`}
                  <//>
                </div>`} />
          </div>`}
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go3("batches", { ...wanted, cursor: found.data?.next_cursor })}
      onFirst=${() => go3("batches", wanted)} />`;
}
var COLUMNS = [
  {
    key: "name",
    label: "batches.batch",
    render: (one) => html`<a href=${href("batches", { id: one.id })} title=${visible(`${titleOf(one)}
${one.id}`)}>
          ${visible(titleOf(one))}
        </a>
        ${one.batch && html` <span class="muted">${t("batches.inside")}</span>`}`
  },
  {
    key: "condition",
    label: "job.state",
    width: 14.5,
    priority: 2,
    render: (one) => html`<${BatchState} batch=${one} />`
  },
  {
    key: "progress",
    label: "batches.over",
    width: 16,
    render: (one) => html`<${BatchProgress} batch=${one} />`
  },
  {
    key: "failed",
    label: "state.failed",
    align: "end",
    width: 5.5,
    render: (one) => one.counts.failed ? html`<a class="fails" href=${href("batches", { id: one.id, state: "failed" })}><${Num} value=${one.counts.failed} /></a>` : html`<${Num} value=${null} />`
  },
  {
    key: "tags",
    label: "job.tags",
    width: 10,
    priority: 4,
    render: (one) => one.tags.length ? one.tags.map(
      (tag) => html`<a key=${tag} class="chip" href=${href("batches", { tag })}>${visible(tag)}</a> `
    ) : html`<${Num} value=${null} />`
  },
  {
    key: "created",
    label: "job.created",
    width: 8,
    priority: 2,
    render: (one) => html`<${Time} at=${one.created_at} />`
  },
  {
    key: "completed",
    label: "batches.completed",
    width: 8,
    priority: 3,
    render: (one) => html`<${Time} at=${one.completed_at} />`
  }
];

// identity/differences.js
function differences(before, after) {
  if (!isMap(before) && !isMap(after))
    return toJson(before) === toJson(after) ? [] : [{ key: "", before: before ?? void 0, after: after ?? void 0 }];
  const was = isMap(before) ? before : {};
  const is2 = isMap(after) ? after : {};
  return [.../* @__PURE__ */ new Set([...Object.keys(was), ...Object.keys(is2)])].filter((key) => toJson(was[key] ?? null) !== toJson(is2[key] ?? null)).map((key) => ({ key, before: was[key], after: is2[key] }));
}
function ChangedValue({ entry: entry2 }) {
  const document2 = entry2.after ?? entry2.before;
  const what = isMap(document2) && changedText(entry2.action, document2);
  return what ? html`<p><code><${Text} value=${what} max=${200} /></code></p>` : null;
}
function changedText(action, document2) {
  if (action === "constraint.value" && "value" in document2) {
    const { value, key } = document2;
    return `${key ?? t("audit.value")} = ${typeof value === "string" ? JSON.stringify(value) : toJson(value)}`;
  }
  const { node_id: node, pid, url } = document2;
  if (action.startsWith("worker.") && node)
    return [node, pid && t("master.pid", { pid: String(pid) }), url].filter(Boolean).join(" · ");
  return "";
}
function Difference({ before, after }) {
  const isMade = before === null || before === void 0;
  const rows = differences(before, after).filter(
    (row) => !isMade || row.key === "enabled" || !isDefault(row.after)
  );
  if (rows.length === 0) return null;
  const cell = (key, value, kind) => {
    if (value === void 0 || value === null) return "";
    const words = html`<${Text} value=${wordsOf(key, value)} max=${400} />`;
    if (isMade) return words;
    return html`<span class=${`diff ${kind}`}>
        <span aria-hidden="true">${kind === "was" ? "−" : "+"}</span>
        <span class="sr">${t(`audit.${kind}`)}</span> ${words}
      </span>`;
  };
  return html`<dl class="facts changes">
      ${rows.slice(0, 100).map(
    (row) => html`<dt title=${visible(row.key)}>
                <${Text} value=${row.key ? keyWords(row.key) : t("audit.value")} max=${64} />
              </dt>
              <dd>${cell(row.key, row.before, "was")} ${cell(row.key, row.after, "is")}</dd>`
  )}
    </dl>`;
}

// identity/changes.js
var CHANGES_SHOWN = 3;
function Changes({ name, etag }) {
  const { data, problem } = useResource(
    (signal) => get("api/audit", { target: name, limit: CHANGES_SHOWN }, signal),
    [name, etag]
  );
  const entries = data?.entries ?? [];
  return html`<section class="card after" aria-labelledby="changes">
      <h2 id="changes">${t("constraints.history")}</h2><${ErrorBox} problem=${problem} />
      <ol class="audit">
        ${entries.map(
    (entry2) => html`<li key=${entry2.id} class="entry">
                <p class="row">
                  <strong>${tOr(`act.${entry2.action}`, visible(entry2.action))}</strong> <${Time}
                    at=${entry2.at} isPast /> <span class="muted">
                    ${t("audit.by")} <span title=${visible(entry2.who)}>${visible(whoText(entry2.who))}</span>
                  </span>
                </p>
                <${ChangedValue} entry=${entry2} />
                <${Difference} before=${entry2.before} after=${entry2.after} />
              </li>`
  )}
      </ol>
      <p><a href=${href("audit", { target: name })}>${t("constraints.history.all")}</a></p>
    </section>`;
}

// constraints/replay.js
var MAX_KEYS = 8;
function LastHour({ document: document2 }) {
  const asked = document2 ? toJson(document2) : null;
  const [state, setState] = E2(
    /** @type {{of: string | null, answer: ReplayAnswer | null, problem: Problem | null, isBusy: boolean}} */
    {
      of: null,
      answer: null,
      problem: null,
      isBusy: false
    }
  );
  const run = async () => {
    setState({ of: asked, answer: null, problem: null, isBusy: true });
    try {
      const answer = await post("api/constraints/preview/last-hour", document2);
      setState({ of: asked, answer, problem: null, isBusy: false });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      setState({ of: asked, answer: null, problem, isBusy: false });
    }
  };
  const isOld = state.of !== null && state.of !== asked && !state.isBusy;
  return html`<section class="replay stack" aria-live="polite">
      <h3>${t("constraints.replay")}</h3><p class="muted small">${t("constraints.replay.text")}</p>
      <p>
        <${Button} class="small" disabled=${!document2 || state.isBusy} onClick=${run}>
          ${t(state.isBusy ? "loading" : "constraints.replay.run")}
        <//>
      </p>
      ${isOld ? html`<p class="muted">${t("constraints.replay.old")}</p>` : html`<${ErrorBox} problem=${state.problem} />${state.answer && html`<${Told} told=${state.answer} />`}`}
    </section>`;
}
function Told({ told: told4 }) {
  const { points } = told4;
  const units = told4.units && { ...told4.units, unit: visible(told4.units.unit) };
  const covers = [
    t("constraints.replay.covers", { count: told4.looked_at, minutes: points.length - 1 }),
    !told4.is_whole && t("constraints.replay.part"),
    told4.gone > 0 && t("constraints.replay.gone", { count: told4.gone }),
    told4.without_key > 0 && t("constraints.preview.without", { count: told4.without_key }),
    t("constraints.replay.last_run")
  ];
  return html`${told4.held === 0 ? html`<p><strong>${t("constraints.replay.none", { count: told4.started })}</strong></p>` : html`<p>
          <strong>${t("constraints.replay.held", { held: told4.held, count: told4.started })}</strong> ${t(
    "constraints.replay.times",
    {
      p95: durationText(told4.p95_ms ?? 0),
      longest: durationText(told4.longest_ms ?? 0),
      most: told4.most_held
    }
  )}
          ${told4.held_now > 0 && ` ${t("constraints.replay.now", { count: told4.held_now })}`}
        </p>
        ${units && html`<p>
              ${t("constraints.replay.units", {
    held: number(units.held),
    started: number(units.started),
    most: number(units.most_held),
    unit: units.unit
  })}
            </p>`}
        <${Sparkline}
          values=${points.map((point) => units ? point.held_units ?? 0 : point.held)} label=${units ? t("constraints.replay.chart.units", { unit: units.unit }) : t("constraints.replay.chart")} />`}
    ${told4.held > 0 && told4.keys && html`<p>
          ${told4.keys.slice(0, MAX_KEYS).map(
    (key) => key.held > 0 && html`<span class="chip"><${Text} value=${key.value} max=${40} /> ${number(key.held)} / ${number(key.started)}</span> `
  )}
        </p>`}
    <p class="muted small">
      <${Time} at=${told4.from} /> – <${Time} at=${told4.to} />. ${covers.filter(Boolean).join(" ")}
    </p>`;
}

// constraints/shares.js
var VALUE_FIGURES = PER_VALUE.flatMap((kind) => kind.figures);
var OPS3 = ["eq", "ne", "in", "glob", "lt", "le", "gt", "ge", "exists"];
var WEIGHT = [{ name: "weight", min: 1e-3, step: "any" }];
var SLOTS = [{ name: "slots", min: 1, step: "1" }];
var LIMITS = VALUE_FIGURES.map(({ name, min, unit }) => ({
  name,
  min,
  step: unit === "count" ? "1" : "any"
}));
var BLANK_RULE = toJson({ field: "argument.plan", op: "eq", value: "" });
var turnsOf = (constraint) => constraint && typeof constraint.fair === "object" ? constraint.fair : null;
var sharesOf = (constraint) => ({
  weights: JSON.stringify(
    (turnsOf(constraint)?.weights ?? []).map((one) => ({
      of: typedOf(one.value),
      weight: String(one.weight)
    }))
  ),
  default_weight: String(turnsOf(constraint)?.default ?? ""),
  reserve: JSON.stringify(
    (constraint?.reserve ?? []).map((one) => ({
      of: toJson(one.matcher),
      slots: String(one.concurrency)
    }))
  ),
  conditions: JSON.stringify(
    (constraint?.overrides ?? []).filter((one) => one.match).map((one) => ({
      of: toJson(one.match),
      paused: one.paused ? "yes" : "",
      ...Object.fromEntries(VALUE_FIGURES.map((figure) => [figure.name, figureText(figure, one)]))
    }))
  )
});
var rowsIn = (text) => JSON.parse(text || "[]");
var conditionsIn = (text) => rowsIn(text).map((row) => ({ match: parseExact(row["of"] ?? ""), ...limitsIn(row, PER_VALUE) }));
function sharesIn(given, base) {
  const weights = rowsIn(given["weights"]).map((row) => ({
    value: valueOf(row["of"] ?? ""),
    weight: Number(row["weight"])
  }));
  const reserve = rowsIn(given["reserve"]).map((row) => ({
    matcher: parseExact(row["of"] ?? ""),
    concurrency: Number(row["slots"])
  }));
  const isWeighted = given["fair"] && (weights.length > 0 || given["default_weight"]);
  return {
    overrides: [...(base?.overrides ?? []).filter((one) => !one.match), ...conditionsIn(given["conditions"])],
    ...reserve.length > 0 && { reserve },
    ...isWeighted && { fair: { weights, default: Number(given["default_weight"] || 1) } }
  };
}
function ShareFields({ form }) {
  const { values: values2 } = form;
  return html`${values2["fair"] && html`<${Rows2} form=${form} name="weights" columns=${WEIGHT} isRule=${false} />
      <${FormField}
        form=${form} name="default_weight" path="fair.default" type="number" min="0.001" step="any"
        placeholder="1" label=${t("constraints.default_weight")} />`}
    ${values2["concurrency"] && html`<${Rows2} form=${form} name="reserve" columns=${SLOTS} isRule />`}
    ${values2["key"]?.trim() && html`<${Rows2} form=${form} name="conditions" columns=${LIMITS} isRule />`}`;
}
function Rows2({ form, name, columns: columns3, isRule }) {
  const rows = rowsIn(form.values[name]);
  const put2 = (next) => form.set({ [name]: JSON.stringify(next) });
  const change2 = (at2, part) => put2(rows.map((row, place2) => place2 === at2 ? { ...row, ...part } : row));
  const blank = {
    of: isRule ? BLANK_RULE : "",
    ...Object.fromEntries(columns3.map((column) => [column.name, ""]))
  };
  return html`<fieldset class="shares plain-fields">
      <legend>${t(`constraints.form.${name}`)}</legend><p class="hint">${t(`constraints.${name}.hint`)}</p>
      ${rows.map((row, at2) => {
    const n = at2 + 1;
    return html`<div key=${at2} class="row">
            ${isRule ? html`<${Condition} text=${row["of"] ?? ""} n=${n} onText=${(of2) => change2(at2, { of: of2 })} />` : html`<input
                    aria-label=${t("rule.value", { n })} placeholder=${t("rule.value", { n })}
                    spellcheck=${false} autocomplete="off" autocapitalize="none" value=${row["of"]}
                    onInput=${(e2) => change2(at2, { of: e2.target.value })} />`}
            ${columns3.map(
      (column) => html`<input
                    key=${column.name} type="number" min=${column.min} step=${column.step}
                    aria-label=${`${t(`constraints.form.${/** @type {"weight"} */
      column.name}`)} ${n}`}
                    placeholder=${t(`constraints.form.${/** @type {"weight"} */
      column.name}`)}
                    value=${row[column.name]}
                    onInput=${(e2) => change2(at2, { [column.name]: e2.target.value })} />`
    )}
            <button
              type="button" class="icon-button" aria-label=${t("rule.remove", { n })}
              onClick=${() => put2(rows.filter((_, place2) => place2 !== at2))}>
              ✕
            </button>
          </div>`;
  })}
      <div>
        <${Button} class="small" onClick=${() => put2([...rows, blank])}>${t("constraints.add_row")}<//>
      </div>
    </fieldset>`;
}
function Condition({ text, n, onText }) {
  const row = conditionRow(text);
  if (row === null) return html`<code>${visible(text)}</code>`;
  const put2 = (part) => onText(conditionOf({ ...row, ...part }));
  return html`<input
      aria-label=${t("rule.field", { n })} spellcheck=${false} autocomplete="off" autocapitalize="none"
      value=${row.field} onInput=${(e2) => put2({ field: e2.target.value })} />
    <select
      aria-label=${t("rule.op", { n })} value=${row.op}
      onChange=${(e2) => put2({ op: e2.target.value })}>
      ${OPS3.map(
    (op) => html`<option key=${op} value=${op}>${t(`rule.op.${/** @type {"eq"} */
    op}`)}</option>`
  )}
    </select>
    <input
      aria-label=${t("rule.value", { n })} spellcheck=${false} autocomplete="off" autocapitalize="none"
      value=${row.value} onInput=${(e2) => put2({ value: e2.target.value })} />`;
}
function Shares({ one }) {
  const turns = turnsOf(one);
  const reserve = one.reserve ?? [];
  const conditions = one.overrides.filter((override) => override.match);
  const words = (matcher) => visible(ruleText(matcher) ?? toJson(matcher));
  return html`${turns && html`<h3>${t("constraints.form.weights")}</h3>
      <ul class="plain">
        ${turns.weights.map(
    (share, at2) => html`<li key=${at2}>${visible(typedOf(share.value))}: <span class="num">${number(share.weight)}</span></li>`
  )}
        <li>${t("constraints.default_weight")}: <span class="num">${number(turns.default)}</span></li>
      </ul>`}
    ${reserve.length > 0 && html`<h3>${t("constraints.form.reserve")}</h3>
        <ul class="plain">
          ${reserve.map(
    (share, at2) => html`<li key=${at2}>${words(share.matcher)}: <span class="num">${number(share.concurrency)}</span></li>`
  )}
        </ul>`}
    ${conditions.length > 0 && html`<h3>${t("constraints.form.conditions")}</h3>
        <ul class="plain">
          ${conditions.map(
    (share, at2) => html`<li key=${at2}>
                  ${words(share.match)}: ${limitTexts({ ...NONE, ...share }, one.weight?.unit).join(" · ")}
                  ${share.paused && ` ${t("enqueue.paused")}`}
                </li>`
  )}
        </ul>`}`;
}
var NONE = Object.fromEntries(LIMIT_KINDS.map(({ name }) => [name, null]));
function ConditionCounts({ counts, text }) {
  const rows = rowsIn(text);
  if (counts.length !== rows.length || rows.length === 0) return null;
  return html`<ul class="plain">
      ${rows.map((row, at2) => {
    const { jobs, values: values2 } = counts[at2] ?? { jobs: 0, values: 0 };
    return html`<li key=${at2}>
            ${visible(ruleText(parseExact(row["of"] ?? "")) ?? row["of"] ?? "")}
            : <span class="num">
              ${t("constraints.condition_count", { jobs: number(jobs), values: number(values2) })}
            </span>
          </li>`;
  })}
    </ul>`;
}

// constraints/editor.js
var PREVIEW_MS = 500;
var NAME = /^[A-Za-z0-9_.:-]{1,100}$/;
var VALUE_FIGURES2 = PER_VALUE.flatMap((kind) => kind.figures);
var EXPIRES_AT = { name: "expires_at", path: ["expires_at"], min: 0, unit: "instant" };
var FIGURES2 = [...LIMIT_KINDS.flatMap((kind) => kind.figures), EXPIRES_AT];
var BLANK2 = {
  name: "",
  matcher: '{"field": "name", "op": "eq", "value": "mail.send"}',
  key: "",
  ...formOf(null),
  ...sharesOf(null),
  mode: "enforce",
  enabled: "yes",
  reason: "",
  expires_at: ""
};
var valuesOf = (constraint) => constraint ? {
  name: constraint.name,
  matcher: toJson(constraint.matcher, 2),
  key: constraint.key ?? "",
  ...formOf(constraint),
  ...sharesOf(constraint),
  mode: constraint.mode,
  enabled: constraint.enabled ? "yes" : "",
  reason: constraint.reason,
  expires_at: figureText(EXPIRES_AT, constraint)
} : BLANK2;
var LABELS = (
  /** @type {Record<string, string>} */
  {
    reason: "pause.reason",
    expires_at: "pause.until",
    default_weight: "constraints.default_weight",
    matcher: "constraints.matcher",
    key: "constraints.key"
  }
);
var labelOf2 = (name) => {
  const label = t(LABELS[name] ?? `constraints.form.${name}`);
  return FIGURES2.some((figure) => figure.name === name && figure.unit === "instant") ? inZone(label) : label;
};
var FigureField = ({ form, figure }) => html`<${FormField} form=${form} name=${figure.name} path=${figure.path.join(".")} label=${labelOf2(figure.name)} ...${inputFor(figure)} />`;
function ConstraintEditor({ constraint, onClose, onDone }) {
  useZone();
  const form = useForm(constraint, valuesOf);
  const { values: values2 } = form;
  const suggestions = useJobSuggestions();
  const matcher = parsed(values2["matcher"] ?? "");
  const save = async (given, base) => {
    const { name, body } = requestOf(given, base);
    await call("PUT", `api/constraints/${encodeURIComponent(name)}`, {
      body,
      headers: base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }
    });
    await onDone(name);
    return t(base ? "constraints.done.changed" : "constraints.done.created", { name: visible(name) });
  };
  const reread = () => get(`api/constraints/${encodeURIComponent(constraint?.name ?? "")}`);
  return html`<${FormDialog}
      title=${constraint ? `${t("constraints.edit")} · ${visible(constraint.name)}` : t("constraints.make")}
      form=${form} onClose=${onClose} onSave=${save} labelOf=${labelOf2}
      reread=${constraint ? reread : void 0} isNew=${constraint === null}
      saveLabel=${constraint ? t("save") : t("constraints.create")} isWide>
      ${!constraint && html`<${FormField} form=${form} name="name" label=${t("job.name")} hint=${t("constraints.name.rule")} maxlength="100" spellcheck=${false} />`}
      <div class="form-grid">
        <${MatcherField}
          form=${form} rows="6" suggestions=${suggestions} label=${t("constraints.matcher")}
          hint=${t("rule.hint")} jsonHint=${t("constraints.matcher.hint")}
          problem=${form.problem ?? matcher.problem} />
        <${Preview}
          text=${matcher.problem ? "" : values2["matcher"] ?? ""} matchKey=${values2["key"]?.trim() ?? ""}
          conditions=${values2["conditions"] ?? ""} limits=${limitsIn(values2, LIMIT_KINDS)} />
      </div>
      <div class="form-grid">
        <${FormField}
          form=${form} name="key" label=${t("constraints.key")} hint=${t("constraints.key.hint")}
          placeholder="argument.host" spellcheck=${false} />
        ${LIMIT_KINDS.filter((kind) => kind.figures.length > 0).map(
    ({ name, figures: figures2 }) => html`<div key=${name} class=${figures2.length === 2 ? "pair" : "apart"}>
                ${figures2.map((figure) => html`<${FigureField} key=${figure.name} form=${form} figure=${figure} />`)}
              </div>`
  )}
        <${FigureField} form=${form} figure=${EXPIRES_AT} />
        <${FormField} form=${form} name="mode" as="select" label=${labelOf2("mode")}>
          <option value="enforce">${t("constraints.enforce")}</option>
          <option value="shadow">${t("constraints.shadow")}</option>
        <//>
      </div>
      <${FormField}
        form=${form} name="reason" label=${t("pause.reason")} hint=${t("constraints.reason.hint")}
        maxlength="500" />
      <div class="row">
        <${FormCheck} form=${form} name="enabled">${labelOf2("enabled")}<//>
        ${SWITCHES.map(
    (kind) => html` <${FormCheck} key=${kind.name} form=${form} name=${kind.name}>${labelOf2(kind.name)}<//>`
  )}
      </div>
      <${ShareFields} form=${form} />
      <${LastHour} document=${matcher.problem ? null : limiting(values2, matcher.value, constraint)} />
    <//>`;
}
function requestOf(given, base) {
  const name = given["name"]?.trim() ?? "";
  const read = parsed(given["matcher"] ?? "");
  if (!NAME.test(name)) throw refusal("name", t(name ? "constraints.name.rule" : "constraints.name.none"));
  if (read.problem) throw read.problem;
  const body = {
    ...limiting(given, read.value, base),
    mode: given["mode"],
    enabled: given["enabled"] === "yes",
    reason: given["reason"] ?? "",
    expires_at: editedInstant(given["expires_at"] ?? "", base?.expires_at) || null
  };
  return { name, body };
}
var limiting = (given, matcher, base) => ({
  matcher,
  ...given["key"]?.trim() && { key: given["key"].trim() },
  ...limitsIn(given, LIMIT_KINDS),
  ...sharesIn(given, base)
});
var ownLimits = (key) => {
  const figures2 = formOf(key.own_limits);
  return Object.fromEntries(VALUE_FIGURES2.map(({ name }) => [name, figures2[name] ?? ""]));
};
function ValueLimits({ shown: shown2, path, onClose, onDone }) {
  useZone();
  const form = useForm(shown2, ownLimits);
  const reread = async () => {
    const { top_keys: keys } = await get(path);
    return keys.find((key) => key.id === shown2.id) ?? { ...shown2, own_limits: null };
  };
  const save = async (values2, base) => {
    const present = await reread();
    if (toJson(present.own_limits) !== toJson(base.own_limits) && form.differences.length === 0)
      throw new Problem(412, { title: t("form.conflict") });
    const limits = limitsIn({ ...values2, paused: present.own_limits?.paused ? "yes" : "" }, PER_VALUE);
    await post(`${path}/values`, { value_id: shown2.id, ...limits });
    await onDone();
    return t("constraints.done.value", { value: visible(shown2.value) });
  };
  return html`<${FormDialog} title=${t("constraints.limit_value.title")} form=${form} onClose=${onClose} onSave=${save} reread=${reread} labelOf=${labelOf2}>
    <p><strong><${Text} value=${shown2.value} max=${200} /></strong></p><p class="muted">${t("constraints.limit_value.text")}</p>
    <div class="form-grid">${VALUE_FIGURES2.map((figure) => html`<${FigureField} key=${figure.name} form=${form} figure=${figure} />`)}</div><//>`;
}
var MAX_HEAVY = 5;
function Weights({ units, weight }) {
  const { unit, total, heaviest, by_default: byDefault, too_heavy: tooHeavy } = units;
  const jobs = units.too_heavy_jobs.slice(0, MAX_HEAVY);
  return html`<p>
      ${t("constraints.preview.units", {
    total: number(total),
    unit: visible(unit),
    heaviest: number(heaviest)
  })}
    </p>
    ${byDefault > 0 && weight?.from && html`<p class="muted">${t("constraints.preview.by_default", { count: byDefault, path: visible(weight.from), default: number(weight.default ?? 1) })}</p>`}
    ${tooHeavy > 0 && html`<p class="field-error">
          ${t("constraints.preview.too_heavy", { count: tooHeavy })} ${jobs.map(
    (id) => html`<${Id} key=${id} id=${id} href=${href("job", { id })} /> `
  )}
        </p>`}`;
}
var refusal = (field, msg) => new Problem(422, { title: msg, errors: [{ loc: [field], msg }] });
function parsed(text) {
  try {
    return { value: parseExact(text), problem: null };
  } catch (error) {
    const reason = error instanceof Error ? error.message : "";
    return { problem: refusal("matcher", `${t("constraints.not_json")}: ${reason}`) };
  }
}
function usePreview({ text, matchKey, conditions, limits: { weight, concurrency, rate } }) {
  const [state, setState] = E2(
    /** @type {{of: string, answer: PreviewAnswer | null, problem: Problem | null}} */
    {
      of: "",
      answer: null,
      problem: null
    }
  );
  const isRate = (rate?.limit ?? 0) > 0 && (rate?.period_s ?? 0) > 0;
  const weighed = weight ? { weight, ...concurrency && { concurrency }, ...isRate && { rate } } : {};
  const asked = JSON.stringify([text, matchKey, conditions, weighed]);
  W2(() => {
    if (!text) return void 0;
    const parts = Object.entries(weighed).map(([name, value]) => `,"${name}":${toJson(value)}`);
    if (matchKey)
      parts.push(`,"key":${JSON.stringify(matchKey)},"overrides":${toJson(conditionsIn(conditions))}`);
    const aborter = new AbortController();
    const timer2 = setTimeout(() => {
      call("POST", "api/constraints/preview", {
        text: `{"matcher":${text},"limit":5${parts.join("")}}`,
        signal: aborter.signal
      }).then(
        (answer) => setState({ of: asked, answer, problem: null }),
        (error) => {
          if (error instanceof Problem) setState({ of: asked, answer: null, problem: error });
        }
      );
    }, PREVIEW_MS);
    return () => {
      clearTimeout(timer2);
      aborter.abort();
    };
  }, [asked]);
  return state.of === asked ? state : { answer: null, problem: null };
}
function Preview(props) {
  const { text, matchKey, conditions, limits } = props;
  const { answer, problem } = usePreview(props);
  return html`<div class="preview" aria-live="polite">
      <h3>${t("constraints.preview")}</h3><${ErrorBox} problem=${problem} />
      ${!answer && !problem && html`<p class="muted">${t(text ? "action.counting" : "constraints.preview.invalid")}</p>`}
      ${answer && html`<p>
            <strong class="num">${answer.is_exact ? "" : "≥ "}${number(answer.count)}</strong> ${t(
    "constraints.preview.count",
    { count: answer.count }
  )}
            ${answer.without_key > 0 && html` <span class="muted">${t("constraints.preview.without", { count: answer.without_key })}</span>`}
          </p>
          <ul class="plain">
            ${answer.examples.map(
    (job) => html`<li key=${job.id}>
                    <${State} state=${job.state} /> <${Text} value=${job.name} max=${60} /> <span
                      class="muted">
                      <${Time} at=${job.created_at} />
                    </span>
                  </li>`
  )}
          </ul>
          ${answer.units && html`<${Weights} units=${answer.units} weight=${limits.weight} />`}
          ${matchKey && html`<${ConditionCounts} counts=${answer.overrides ?? []} text=${conditions} />`}
          ${answer.keys && answer.keys.length > 0 && html`<p class="muted">
                ${answer.keys.slice(0, 8).map(
    (key) => html`<span class="chip"><${Text} value=${key.value} max=${40} /> ${number(key.count)}</span> `
  )}
              </p>`}`}
    </div>`;
}

// constraints/values.js
var SOON_MS = 1e3;
function KeyValues({ one, path, mayOperate, onDone }) {
  const [asked, setAsked] = E2("");
  const [limiting2, setLimiting] = E2(
    /** @type {KeyUsage | null} */
    null
  );
  const found = useResource((signal) => askFor(path, asked, signal), [path, asked], {
    events: ["constraints", "jobs"],
    leastMs: 2e3,
    everyMs: 5e3
  });
  const likely = () => one.top_keys.filter((key) => toJson(key.value).includes(asked));
  const keys = asked ? found.data ?? likely() : one.top_keys;
  const done = async () => {
    await Promise.all([onDone(), found.reload()]);
  };
  return html`<section class="card">
      <h2>
        ${t("constraints.top_keys")} ${one.usage.keys !== null && html`<span class="muted num">${number(one.usage.keys)}</span>`}
      </h2>
      ${one.values_hidden ? html`<p class="muted">${t(mayOperate ? "constraints.values_redacted" : "constraints.values_hidden")}</p>` : html`<${FilterInput}
              label=${t("constraints.ask_value")} hint=${t("constraints.ask_value.hint")} maxlength="1024"
              value=${asked} onChange=${setAsked} />`}
      <${ErrorBox} problem=${asked ? found.problem : null} />
      ${keys.length === 0 ? html`<p class="muted">${t(asked && found.isLoading ? "loading" : "constraints.no_keys")}</p>` : html`<ul class="plain keys-list">
              ${keys.map(
    (value, at2) => html`<${ValueRow}
                      key=${value.id ?? at2} one=${one} value=${value} path=${path} mayOperate=${mayOperate}
                      onLimit=${() => setLimiting(value)} onDone=${done} />`
  )}
            </ul>`}
      ${limiting2 && html`<${ValueLimits} shown=${limiting2} path=${path} onClose=${() => setLimiting(null)} onDone=${done} />`}
    </section>`;
}
function ValueRow({ one, value, path, mayOperate, onLimit, onDone }) {
  const limits = limitTexts({ ...value.limits, max_backlog: null }, one.weight?.unit).join(" · ");
  const closed2 = closedBy(value);
  const opensLater = value.next_opening && Date.parse(value.next_opening) > nowMs() + SOON_MS;
  return html`<li>
      <div class="row">
        <${Badge} kind=${value.is_open ? "ok" : "warn"}>
          ${t(value.is_open ? "why.passes" : "why.closed")}
        <//> <strong><${Text} value=${value.value} max=${80} /></strong>
        <span class="muted">${limits || t("constraints.no_limit")}</span>
        ${closed2 && html`<span class="closed-by">
              ${closed2}
              ${opensLater && html` · ${t("why.opens")} <${Time} at=${value.next_opening} isNext />`}
            </span>`}
        ${value.limits.paused && html` <${Badge} kind="warn">${t("enqueue.paused")}<//>`}
      </div>
      <div class="row">
        <span class="num">
          ${t("constraints.key_usage", { waiting: value.waiting, running: value.running ?? 0 })}
          ${one.weight && html` · ${unitsText(value, one.weight.unit)}`}
        </span>
        ${mayOperate && value.id && html`<${Button} opensDialog class="small" onClick=${onLimit}>${t("constraints.limit_value")}<//>
            <${ValueActions} one=${one} value=${value} id=${value.id} path=${path} onDone=${onDone} />`}
      </div>
    </li>`;
}
function ValueActions({ one, value, id, path, onDone }) {
  const setLimits = (limits, text) => attempt(
    () => post(`${path}/values`, { value_id: id, ...limits }),
    t(text, { value: visible(value.value) })
  ).then(onDone);
  const resume = () => setLimits({ ...limitsOf(value.own_limits, PER_VALUE), paused: false }, "constraints.done.resumed");
  return html`${value.own_limits?.paused ? html`<${Button} class="small" onClick=${resume}>${t("constraints.unpause")}<//>` : html`<${PauseButton}
          target=${{ constraint: one.name, value_id: id }}
          what=${`${visible(one.key ?? "")} = ${visible(value.value)}`} onDone=${onDone} />`}${value.own_limits && html`<${Button} class="small" onClick=${() => setLimits({}, "constraints.done.as_all")}>${t("constraints.as_all")}<//>`}`;
}
function closedBy({ is_open, held_until, running, starts_in_window, limits }) {
  if (is_open || limits.paused) return "";
  if (held_until) return t("constraints.closed.held");
  const { concurrency, rate } = limits;
  if (typeof concurrency === "number" && (running ?? 0) >= concurrency)
    return t("constraints.closed.concurrency", { used: running ?? 0, limit: concurrency });
  if (rate && (starts_in_window ?? 0) >= rate.limit)
    return t("constraints.closed.rate", { used: starts_in_window ?? 0, limit: rate.limit });
  return "";
}
var unitsText = (usage, unit) => [
  usage.running_units !== null && t("constraints.units.running", { units: number(usage.running_units), unit }),
  usage.units_in_window !== null && t("constraints.units.window", { units: number(usage.units_in_window), unit })
].filter(Boolean).join(" · ");
async function askFor(path, text, signal) {
  if (!text) return [];
  const details = await Promise.all(
    [text, JSON.stringify(text)].map((value) => get(path, { value }, signal))
  );
  const values2 = details.flatMap((detail) => detail.value ? [detail.value] : []);
  const different = values2.filter((value, at2) => values2.findIndex((one) => one.id === value.id) === at2);
  const known2 = different.filter((value) => value.waiting || value.running || value.own_limits);
  return known2.length > 0 ? known2 : different;
}

// constraints/pages/constraints.js
var EXAMPLE2 = {
  matcher: { field: "name", op: "eq", value: "mail.send" },
  key: "argument.host",
  concurrency: 2
};
function Page7({ query, go: go3, session: session2 }) {
  return query["name"] ? html`<${One3} key=${query["name"]} name=${query["name"]} go=${go3} session=${session2} />` : html`<${List3} go=${go3} session=${session2} />`;
}
var limitsText = (constraint) => limitTexts(constraint).join(" · ") || t("constraints.no_limit");
function Marks2({ constraint }) {
  return html`${!constraint.enabled && html`<${Badge} kind="off">${t("constraints.off")}<//> `}
    ${constraint.paused && html`<${Badge} kind="warn">${t("enqueue.paused")}<//> `}
    ${constraint.mode === "shadow" && html`<${Badge}>${t("enqueue.shadow")}<//> `}
    ${!constraint.usage.in_force && html`<${Badge} kind="warn">${t("constraints.not_in_force")}<//>`}`;
}
function Usage({ constraint }) {
  const { usage } = constraint;
  const [closed2, all] = [usage.closed_keys ?? 0, usage.keys ?? 0];
  if (constraint.key && closed2 > 0)
    return html`<span class="usage">
        <${Badge} kind="warn">${t("constraints.full_values", { count: closed2, all })}<//> <${Bar}
          value=${closed2} of=${all} label=${t("constraints.usage")} kind="warn" />
      </span>`;
  const [running, started] = constraint.weight ? [usage.running_units, usage.units_in_window] : [usage.running, usage.starts_in_window];
  const used = constraint.concurrency !== null ? running : started;
  const most = constraint.concurrency ?? constraint.rate?.limit ?? null;
  if (used === null || used === void 0) return html`<${Num} value=${null} />`;
  if (constraint.key || most === null) return html`<span class="num">${number(used)}</span>`;
  return html`<span class="usage">
      <span class="num">${number(used)} / ${number(most)}</span> <${Bar}
        value=${used} of=${most} label=${t("constraints.usage")} kind=${used >= most ? "warn" : "info"} />
    </span>`;
}
function Held({ usage }) {
  if (usage.held === null) return html`<${Num} value=${null} />`;
  const title2 = t("constraints.held_jobs.title", { held: usage.held, waiting: usage.waiting ?? 0 });
  return html`<span title=${title2} class=${usage.held > 0 ? "" : "muted"}><${Num} value=${usage.held} /></span>`;
}
function Opening({ at: at2 }) {
  useTick();
  if (at2 && Date.parse(at2) < nowMs()) return html`<span class="muted">${t("constraints.opening")}</span>`;
  return html`<${Time} at=${at2} isNext />`;
}
function List3({ go: go3, session: session2 }) {
  const hold = useHold();
  const [isMaking, setMaking] = E2(false);
  const found = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints", "jobs"],
    leastMs: 2e3,
    everyMs: 5e3
  });
  const all = found.data?.constraints ?? [];
  const { rows } = useSteadyRows(
    all.filter((one) => !isPause(one.name)),
    nameOf3,
    hold.isHeld,
    "all"
  );
  const mayOperate = may(session2, "operate");
  return html`<div class="page-head">
      <h1>${t("nav.constraints")}</h1>
      ${mayOperate && html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t("constraints.make")}<//>`}
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<${Pauses} mayOperate=${mayOperate} />
          <div ...${hold.bind}>
            <${Table}
              caption=${t("nav.constraints")} rows=${rows} rowKey=${nameOf3}
              onOpen=${(one) => go3("constraints", { name: one.name })}
              columns=${[
    ...columnsOf2(rows),
    ...mayOperate ? [pauseColumn((one) => html`<${RowPause} one=${one} all=${all} onDone=${found.reload} />`)] : []
  ]} empty=${html`<div class="card">
                  <${Empty}
                    title=${t("constraints.empty")}
                    curl=${curl(session2, "PUT", "api/constraints/mail-per-host", { body: EXAMPLE2 })} />
                </div>`} />
          </div>`}
    ${isMaking && html`<${ConstraintEditor} constraint=${null} onClose=${() => setMaking(false)} onDone=${(name) => go3("constraints", { name })} />`}`;
}
function columnsOf2(rows) {
  const shadow = {
    key: "shadow",
    label: t("constraints.would"),
    align: "end",
    priority: 3,
    render: (one) => html`<${Num} value=${one.mode === "shadow" ? one.usage.shadow_delayed : null} />`
  };
  return [
    {
      key: "name",
      label: t("job.name"),
      render: (one) => html`<a href=${href("constraints", { name: one.name })}>${visible(one.name)}</a> <${Marks2} constraint=${one} />`
    },
    { key: "limits", label: t("constraints.limits"), render: limitsText },
    {
      key: "key",
      label: t("constraints.key"),
      priority: 2,
      render: (one) => one.key ? html`<code>${visible(one.key)}</code>
            ${one.usage.keys !== null && html` <span class="muted num">${t("constraints.values", { count: one.usage.keys })}</span>`}` : html`<${Num} value=${null} />`
    },
    {
      key: "usage",
      label: t("constraints.usage"),
      priority: 2,
      render: (one) => html`<${Usage} constraint=${one} />`
    },
    {
      key: "held",
      label: t("constraints.held_jobs"),
      align: "end",
      render: (one) => html`<${Held} usage=${one.usage} />`
    },
    {
      key: "opens",
      label: t("constraints.opens"),
      align: "end",
      priority: 3,
      render: (one) => html`<${Opening} at=${one.usage.next_opening} />`
    },
    ...rows.some((one) => one.mode === "shadow") ? [shadow] : []
  ];
}
var nameOf3 = (one) => one.name;
var change = (one, changes) => attempt(
  () => call("PUT", `api/constraints/${encodeURIComponent(one.name)}`, {
    body: { ...documentOf(one), ...changes },
    headers: { "If-Match": `"${one.etag}"` }
  }),
  t("constraints.saved")
);
function RowPause({ one, all, onDone }) {
  const pause2 = all.find(
    (other) => isPause(other.name) && toJson(other.matcher) === toJson(one.matcher) && other.name !== one.name
  );
  const what = t("pause.what.constraint", { name: visible(one.name) });
  if (!pause2 && !one.paused)
    return html`<${PauseButton} isIcon target=${{ constraint: one.name }} what=${what} onDone=${onDone} />`;
  const resume = () => pause2 ? endPause(pause2.name, onDone) : change(one, { paused: false }).then(onDone);
  const label = `${t("constraints.unpause")}: ${what}`;
  return html`<button type="button" class="icon-button row-action" aria-label=${label} title=${label} onClick=${resume}><${Icon} name="resume" /></button>`;
}
function One3({ name, go: go3, session: session2 }) {
  useTitle(name);
  const path = (
    /** @type {const} */
    `api/constraints/${encodeURIComponent(name)}`
  );
  const [dialog, setDialog] = E2("");
  const found = useResource((signal) => get(path, {}, signal), [name], {
    events: ["constraints", "jobs"],
    leastMs: 2e3,
    everyMs: 5e3
  });
  const mayOperate = may(session2, "operate");
  const one = found.data;
  if (!one) return html`<${Absent} page="constraints" title=${t("constraints.unknown")} found=${found} />`;
  return html`<p class="crumbs"><a href=${href("constraints")}>${t("nav.constraints")}</a></p>
    <div class="page-head job-head">
      <h1>${visible(one.name)}</h1><span><${Marks2} constraint=${one} /></span>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${mayOperate && html`<${Actions4} one=${one} path=${path} session=${session2} go=${go3} onAsk=${setDialog} onDone=${found.reload} />`}
    ${!isPause(one.name) && html`<${Pauses} mayOperate=${mayOperate} isOf=${(matcher) => concerns(matcher, one.matcher)} />`}
    <div class="job-grid">
      <div class="stack"><${Now} one=${one} mayOperate=${mayOperate} /><${Matched} one=${one} /></div>
      <div class="stack">
        ${one.key && html`<${KeyValues} one=${one} path=${path} mayOperate=${mayOperate} onDone=${found.reload} />`}
        <${Holders} holders=${one.holders} />
      </div>
    </div>
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${dialog === "edit" && html`<${ConstraintEditor} constraint=${one} onClose=${() => setDialog("")} onDone=${found.reload} />`}
    ${dialog === "delete" && html`<${Delete} one=${one} path=${path} onClose=${() => setDialog("")} onDone=${() => go3("constraints")} />`}`;
}
function Actions4({ one, path, session: session2, go: go3, onAsk, onDone }) {
  const save = (changes) => change(one, changes).then(onDone);
  const resume = () => isPause(one.name) ? endPause(one.name, () => go3("constraints")) : save({ paused: false });
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
      <${Button} opensDialog kind="primary" onClick=${() => onAsk("edit")}>${t("constraints.edit")}<//>
      ${one.paused ? html`<${Button} onClick=${resume}>${t("constraints.unpause")}<//>` : html`<${PauseButton}
              class="" target=${{ constraint: one.name }}
              what=${t("pause.what.constraint", { name: visible(one.name) })} onDone=${onDone} />`}
      <${Button} onClick=${() => save({ enabled: !one.enabled })}>
        ${t(one.enabled ? "constraints.disable" : "constraints.enable")}
      <//>
      <${Copy} label=${t("copy.curl")} text=${() => curl(session2, "PUT", path, { body: documentOf(one) })} />
      <${Button} opensDialog kind="danger" onClick=${() => onAsk("delete")}>${t("action.delete")}<//>
    </div>`;
}
function Now({ one, mayOperate }) {
  const { usage } = one;
  return html`<section class="card">
      <h2>${t("constraints.now")}</h2>
      <dl class="facts">
        <dt>${t("constraints.limits")}</dt><dd>${limitsText(one)}</dd>
        ${one.reason && html`<dt>${t("pause.reason")}</dt><dd><${Text} value=${one.reason} max=${500} /></dd>`}
        ${one.expires_at && html`<dt>${t("pause.until")}</dt><dd><${Time} at=${one.expires_at} /></dd>`}
        ${one.created_by && html`<dt>${t("pause.by")}</dt><dd title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</dd>`}
        <dt>${t("constraints.usage")}</dt><dd><${Usage} constraint=${one} /></dd>
        <dt>${t("constraints.held_jobs")}</dt>
        <dd>
          ${usage.held === null ? html`<${Num} value=${null} />` : t("constraints.held_jobs.title", { held: usage.held, waiting: usage.waiting ?? 0 })}
        </dd>
        ${one.weight && html`<dt>${t("constraints.units")}</dt><dd>${unitsText(usage, one.weight.unit) || html`<${Num} value=${null} />`}</dd>`}
        ${one.observed && html`<dt>${t("constraints.observed")}</dt>
            <dd>
              ${t("constraints.observed.text", {
    units: number(one.observed.remaining),
    unit: one.weight?.unit ?? t("constraints.observed.starts")
  })} <${Time} at=${one.observed.until} isNext />
            </dd>`}
        ${one.held_until && html`<dt>${t("constraints.held")}</dt><dd><${Time} at=${one.held_until} /></dd>`}
        ${usage.next_opening && html`<dt>${t("constraints.opens")}</dt><dd><${Opening} at=${usage.next_opening} /></dd>`}
        ${one.mode === "shadow" && html`<dt>${t("constraints.would")}</dt><dd><${Num} value=${usage.shadow_delayed} /></dd>`}
        <dt>${t("constraints.changed")}</dt>
        <dd>
          <${Time} at=${one.changed_at} />
          ${mayOperate && html` · <a href=${href("audit", { target: one.name })}>${t("nav.audit")}</a>`}
        </dd>
      </dl>
    </section>`;
}
function Matched({ one }) {
  return html`<section class="card">
      <h2>${t("constraints.matcher")}</h2><${RuleText} matcher=${one.matcher} />
      ${one.key && html`<p>${t("constraints.key")}: <code>${visible(one.key)}</code>${one.fair && html` · ${t("constraints.fair")}`}</p>`}
      ${one.counts_awaiting === false && html`<p>${t("constraints.awaiting_free")}</p>`}
      <${Shares} one=${one} />
    </section>`;
}
function Holders({ holders }) {
  return html`<section class="card">
      <h2>${t("constraints.holders")} <span class="muted num">${number(holders.length)}</span></h2>
      ${holders.length === 0 ? html`<p class="muted">${t("constraints.no_holders")}</p>` : html`<ul class="plain">
              ${holders.map(
    (holder) => html`<li key=${holder.job_id}>
                      <${Id} id=${holder.job_id} href=${href("job", { id: holder.job_id })} /> ${holder.value !== null && html`<span class="muted"><${Text} value=${holder.value} max=${60} /></span> `}
                      <${Time} at=${holder.since} />
                    </li>`
  )}
            </ul>`}
    </section>`;
}
function Delete({ one, path, onClose, onDone }) {
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const act = async () => {
    try {
      await del(path);
      onDone();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("constraints.delete.title")} onClose=${onClose}>
      <p>${t("constraints.delete.text", { name: visible(one.name), count: one.usage.waiting ?? 0 })}</p>
      <${ErrorBox} problem=${problem} />
      <footer>
        <${Button} onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" onClick=${act}>${t("action.delete")} (1)<//>
      </footer>
    <//>`;
}
function documentOf(one) {
  const { matcher, key, overrides, enabled, mode, reason, expires_at } = one;
  return {
    enabled,
    mode,
    matcher,
    ...key && { key },
    ...limitsOf(one, LIMIT_KINDS),
    overrides,
    ...one.reserve?.length && { reserve: one.reserve },
    reason,
    expires_at
  };
}

// definitions/coming.js
var TYPING_MS5 = 300;
function useComing(body, of2 = null) {
  const [state, setState] = E2(
    /** @type {{asked: string, instants: Instant[] | null, events: Event[] | null, problem: Problem | null}} */
    {
      asked: "",
      instants: null,
      events: null,
      problem: null
    }
  );
  const asked = JSON.stringify([body, of2]);
  W2(() => {
    if (!body) return void 0;
    const aborter = new AbortController();
    const timer2 = setTimeout(
      () => {
        call("POST", "api/definitions/preview", { text: body, signal: aborter.signal }).then(
          ({ instants, events = [] }) => setState({ asked, instants, events, problem: null }),
          (error) => {
            if (error instanceof Problem) setState({ asked, instants: null, events: null, problem: error });
          }
        );
      },
      state.asked ? TYPING_MS5 : 0
    );
    return () => {
      clearTimeout(timer2);
      aborter.abort();
    };
  }, [asked]);
  const { asked: _, ...found } = state;
  return { ...found, isOld: state.asked !== asked };
}
function dayIn(at2, zone) {
  try {
    return new Intl.DateTimeFormat("sv-SE", { timeZone: zone }).format(Date.parse(at2));
  } catch {
    return at2.slice(0, 10);
  }
}
function noteText(instant, jitterMs, zone) {
  const notes = [];
  if (instant.clock_change) notes.push(t(`definitions.clock.${instant.clock_change}`));
  if (instant.left_out)
    notes.push(
      instant.left_out === "workday" ? t("definitions.left_out.workday") : t("definitions.left_out", { name: visible(instant.left_out) })
    );
  if (instant.moved_from) notes.push(t("definitions.moved_from", { day: dayIn(instant.moved_from, zone) }));
  if (jitterMs > 0 && instant.note) notes.push(t("definitions.jittered"));
  return notes.join(" · ");
}
function ComingTable({ coming, zone, jitterMs = 0, label }) {
  const [mode] = usePref("times", "relative");
  const { instants, problem, isOld } = coming;
  if (problem)
    return html`<p class="muted">${problem.status === 422 ? t("definitions.next.invalid") : visible(problem.title)}</p>`;
  if (instants === null) return html`<p class="muted">${t("loading")}</p>`;
  if (instants.length === 0) return html`<p class="muted">${t("definitions.never_again")}</p>`;
  const own = mode === "utc" ? "UTC" : ownZone();
  const isElsewhere2 = own !== zone;
  return html`<div
      class="table-box coming" tabindex="0" role="region" aria-label=${label} aria-busy=${String(isOld)}>
      <table>
        <caption class="sr">${label}</caption>
        <thead>
          <tr>
            <th scope="col">${visible(zone)}</th>
            ${isElsewhere2 && html`<th scope="col">${t("definitions.your_zone", { zone: own })}</th>`}
          </tr>
        </thead>
        <tbody>
          ${instants.map((one) => {
    const note2 = noteText(one, jitterMs, zone);
    return html`<tr
                key=${`${one.due_at} ${one.moved_from ?? ""}`} class=${one.left_out ? "left-out" : ""}>
                <td>
                  <span class="num">${wallText(one.local)}</span>
                  ${note2 && html` <span class="hint-line">${note2}</span>`}
                </td>
                ${isElsewhere2 && html`<td><span class="num">${ownText(one.due_at, mode)}</span></td>`}
              </tr>`;
  })}
        </tbody>
      </table>
    </div>`;
}

// events/trigger.js
var ARGUMENT_WAYS = ["payload", "parts", "fixed"];
var GATHERINGS = ["none", "debounce", "collect"];
var FIGURES3 = {
  none: [],
  debounce: ["wait_s", "max_s"],
  collect: ["max", "within_s"]
};
var MATCHER = { field: "payload.total", op: "ge", value: 100 };
var MAPPING = { order: { from: "payload.order" } };
var isPayload = (argument) => argument !== null && typeof argument === "object" && "from" in argument && argument.from === "payload";
function valuesOfTrigger(one) {
  const gathering = one?.debounce ? "debounce" : one?.collect ? "collect" : "none";
  const figures2 = (
    /** @type {Record<string, unknown>} */
    one?.debounce ?? one?.collect ?? {}
  );
  const text = (name, blank) => gathering !== "none" && name in figures2 ? figures2[name] === null ? "" : String(figures2[name]) : blank;
  const argument = one?.argument ?? null;
  return {
    event_type: one?.event_type ?? "",
    matching: one?.matcher ? "some" : "all",
    matcher: toJson(one?.matcher ?? MATCHER, 2),
    argument_way: argument !== null ? isPayload(argument) ? "payload" : "parts" : one?.kind === "event" ? "fixed" : "payload",
    mapping: toJson(argument === null || isPayload(argument) ? MAPPING : argument, 2),
    gathering,
    wait_s: text("wait_s", "5"),
    max_s: text("max_s", ""),
    max: text("max", "100"),
    within_s: text("within_s", "10"),
    gathering_key: String(figures2["key"] ?? "")
  };
}
function triggerIn(values2) {
  const matcher = values2["matching"] === "some" ? typedJson(values2, "matcher", ["matcher"]) : "null";
  const argument = values2["argument_way"] === "parts" ? typedJson(values2, "mapping", ["argument"]) : "null";
  const gathering = (
    /** @type {keyof typeof FIGURES} */
    values2["gathering"] ?? "none"
  );
  const key = (values2["gathering_key"] ?? "").trim() || null;
  const figures2 = Object.fromEntries(FIGURES3[gathering].map((name) => [name, asNumber(values2[name])]));
  const gathered = (way) => way === gathering ? { ...figures2, key } : null;
  const rest = {
    kind: "event",
    event_type: (values2["event_type"] ?? "").trim() || null,
    debounce: gathered("debounce"),
    collect: gathered("collect")
  };
  return `"matcher":${matcher},"argument":${argument},${toJson(rest).slice(1, -1)}`;
}
function typedJson(values2, name, loc) {
  const text = (values2[name] ?? "").trim();
  try {
    parseExact(text);
  } catch (error) {
    const msg = `${t("events.not_json")}: ${error instanceof Error ? error.message : ""}`;
    throw new Problem(422, { title: msg, errors: [{ loc, msg }] });
  }
  return text;
}
function gatheringText({ debounce, collect }) {
  const duration = (s2) => durationText(s2 * 1e3);
  const parts = debounce ? [
    t("events.debounce.text", { wait: duration(debounce.wait_s) }),
    debounce.max_s !== null && t("events.debounce.most", { most: duration(debounce.max_s) })
  ] : collect ? [t("events.collect.text", { count: number(collect.max), within: duration(collect.within_s) })] : [];
  const key = (debounce ?? collect)?.key;
  return [...parts, key && t("events.gathered_by", { key: visible(key) })].filter(Boolean).join(" ");
}

// events/argument_mapping.js
var isMap2 = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
var reads = (value) => value !== null && typeof value === "object" && (isMap2(value) && "from" in value || Object.values(value).some(reads));
function rowsOf2(text) {
  let document2;
  try {
    document2 = parseExact(text);
  } catch {
    return null;
  }
  if (!isMap2(document2) || "from" in document2) return null;
  const rows = Object.entries(document2).map(([key, value]) => {
    if (isMap2(value) && typeof value["from"] === "string") return { key, isFrom: true, text: value["from"] };
    return reads(value) ? null : { key, isFrom: false, text: typedOf(value) };
  });
  return rows.every((row) => row !== null) ? rows : null;
}
var textOf2 = (rows) => toJson(
  Object.fromEntries(
    rows.filter(({ key }) => key !== "").map(({ key, isFrom, text }) => [key, isFrom ? { from: text } : valueOf(text)])
  ),
  2
);
function ArgumentMapping({ text, onText, paths }) {
  const id = J2();
  const [rows, setRows] = E2(() => rowsOf2(text));
  const told4 = j(text);
  V2(() => {
    if (text === told4.current) return;
    told4.current = text;
    setRows(rowsOf2(text));
  }, [text]);
  if (rows === null) return html`<p class="muted">${t("events.mapping.nested")}</p>`;
  const change2 = (next) => {
    setRows(next);
    told4.current = textOf2(next);
    onText(told4.current);
  };
  const put2 = (at2, part) => change2(rows.map((row, place2) => place2 === at2 ? { ...row, ...part } : row));
  return html`<div class="rule" role="group" aria-label=${t("events.mapping")}>
      <datalist id=${`${id}-paths`}>
        ${paths.map((path) => html`<option key=${path} value=${path} />`)}
      </datalist>
      ${rows.map((row, at2) => {
    const n = at2 + 1;
    return html`<div key=${at2} class="rule-row">
            <input
              aria-label=${t("events.mapping.key", { n })} spellcheck=${false} autocomplete="off"
              autocapitalize="none" maxlength="200" value=${row.key}
              onInput=${(e2) => put2(at2, { key: e2.target.value })} />
            <select
              aria-label=${t("events.mapping.source", { n })} value=${row.isFrom ? "from" : "value"}
              onChange=${(e2) => put2(at2, { isFrom: e2.target.value === "from" })}>
              <option value="from">${t("events.mapping.from")}</option>
              <option value="value">${t("events.mapping.value")}</option>
            </select>
            <input
              aria-label=${t("rule.value", { n })} list=${row.isFrom ? `${id}-paths` : void 0}
              spellcheck=${false} autocomplete="off" autocapitalize="none" value=${row.text}
              onInput=${(e2) => put2(at2, { text: e2.target.value })} />
            <button
              type="button" class="icon-button" aria-label=${t("events.mapping.remove", { n })}
              onClick=${() => change2(rows.filter((_, place2) => place2 !== at2))}>
              ✕
            </button>
          </div>`;
  })}
      <div>
        <${Button}
          class="small" onClick=${() => change2([...rows, { key: "", isFrom: true, text: "payload" }])}>
          ${t("events.mapping.add")}
        <//>
      </div>
      <p class="muted small">${t("events.mapping.hint")}</p>
    </div>`;
}

// events/trigger_form.js
var FIELDS3 = ["payload", "event_type", "source", "subject"];
var ALSO = ["event_id", "occurred_at"];
var READ2 = 10;
var TYPING_MS6 = 400;
function triggerLabel(name) {
  const own = ["event_type", "matching", "matcher", "argument_way", "mapping", "gathering", "gathering_key"];
  return [...own, ...FIGURES3.debounce, ...FIGURES3.collect].includes(name) ? t(`events.form.${name}`) : "";
}
function useEventSuggestions(type) {
  const [settled, setSettled] = E2(type);
  W2(() => {
    const timer2 = setTimeout(() => setSettled(type), TYPING_MS6);
    return () => clearTimeout(timer2);
  }, [type]);
  return useSuggestions(
    FIELDS3,
    async (add, signal) => {
      const { events } = await get("api/events", { type: settled, limit: READ2 }, signal);
      for (const event of events) {
        for (
          const field of
          /** @type {const} */
          ["event_type", "source", "subject"]
        )
          if (event[field]) add(field, event[field]);
        if (!event.payload_hidden) add("payload", event.payload);
      }
    },
    [settled]
  );
}
function useKnownTypes() {
  const [types, setTypes] = E2(
    /** @type {string[]} */
    []
  );
  W2(() => {
    const aborter = new AbortController();
    get("api/events", { limit: 100 }, aborter.signal).then(
      ({ events }) => setTypes([...new Set(events.map((event) => event.event_type))].sort()),
      () => {
      }
    );
    return () => aborter.abort();
  }, []);
  return types;
}
function Choice({ form, name, options, problem, ...more }) {
  return html`<${FormField}
      form=${form} name=${name} as="select" problem=${problem} label=${triggerLabel(name)} ...${more}>
      ${options.map((one) => html`<option key=${one} value=${one}>${t(`events.${name}.${one}`)}</option>`)}
    <//>`;
}
function Ways({ isJson, onJson, label }) {
  return html`<div class="row" role="group" aria-label=${label}>
      <${Button} class="small" aria-pressed=${String(!isJson)} onClick=${() => onJson(false)}>
        ${t("rule.builder")}
      <//> <${Button} class="small" aria-pressed=${String(isJson)} onClick=${() => onJson(true)}>JSON<//>
    </div>`;
}
function PartErrors({ problem, path }) {
  const errors = fieldErrors(problem, path);
  return errors.length > 0 ? html`<p class="field-error">${visible(errors.join("; "))}</p>` : null;
}
function WhichEvents({ form, problem }) {
  const { values: values2 } = form;
  const types = useKnownTypes();
  const suggestions = useEventSuggestions(values2["event_type"]?.trim() ?? "");
  return html`<${FormField}
      form=${form} name="event_type" problem=${problem} label=${triggerLabel("event_type")}
      hint=${t("events.form.event_type.hint")} list="known-event-types" placeholder="order.*" maxlength="200"
      autocapitalize="none" spellcheck=${false} />
    <datalist id="known-event-types">
      ${types.map((type) => html`<option key=${type} value=${type} />`)}
    </datalist>
    <${Choice} form=${form} name="matching" options=${["all", "some"]} problem=${problem} path="matching" />
    ${values2["matching"] === "some" && html`<${MatcherField} form=${form} suggestions=${suggestions} label=${triggerLabel("matcher")} hint=${t("events.rule.hint")} problem=${problem} />`}`;
}
function EventArgument({ form, problem, children }) {
  const { values: values2 } = form;
  const [isJson, setJson] = E2(() => rowsOf2(values2["mapping"] ?? "") === null);
  const { fields } = useEventSuggestions(values2["event_type"]?.trim() ?? "");
  const way = values2["argument_way"];
  return html`<${Choice}
      form=${form} name="argument_way" options=${ARGUMENT_WAYS} problem=${problem} path="argument_way" />
    ${way === "parts" && html`<${Ways} isJson=${isJson} onJson=${setJson} label=${triggerLabel("mapping")} />
        ${isJson ? html`<${FormField}
                form=${form} name="mapping" path="argument" as="textarea" rows="5" spellcheck=${false}
                label=${triggerLabel("mapping")} hint=${t("events.form.mapping.hint")} problem=${problem} />` : html`<${ArgumentMapping}
                paths=${[...fields, ...ALSO]} text=${values2["mapping"] ?? ""}
                onText=${(text) => form.set({ mapping: text })} />
              <${PartErrors} problem=${problem} path="argument" />`}`}${way === "fixed" && children}`;
}
function Gathering({ form, problem }) {
  const way = (
    /** @type {keyof typeof FIGURES} */
    form.values["gathering"] ?? "none"
  );
  return html`<${Choice}
      form=${form} name="gathering" options=${GATHERINGS} problem=${problem} path="gathering"
      hint=${t(`events.gathering.${way}.text`)} />
    ${FIGURES3[way].map(
    (name) => html`<${FormField}
            key=${name} form=${form} name=${name} path=${`${way}.${name}`} problem=${problem}
            label=${triggerLabel(name)} type="number" min=${name === "max" ? "1" : "0.1"}
            step=${name === "max" ? "1" : "any"} />`
  )}
    ${way !== "none" && html`<${FormField}
          form=${form} name="gathering_key" path=${`${way}.key`} problem=${problem}
          label=${triggerLabel("gathering_key")} hint=${t("events.form.gathering_key.hint")}
          placeholder="payload.customer" maxlength="200" autocapitalize="none" spellcheck=${false} />`}`;
}
function EventsTable({ coming, isAsked, label }) {
  const { events, problem, isOld } = coming;
  if (!isAsked) return html`<p class="muted">${t("events.preview.wait")}</p>`;
  if (problem)
    return html`<p class="muted">${problem.status === 422 ? t("events.preview.invalid") : visible(problem.title)}</p>`;
  if (events === null) return html`<p class="muted">${t("loading")}</p>`;
  if (events.length === 0) return html`<${Empty} title=${t("events.preview.none")} />`;
  return html`<div class="coming" aria-busy=${String(isOld)}>
      <${Table}
        isFixed caption=${label} rows=${events} rowKey=${(one) => one.event_id}
        columns=${PREVIEWED.map((column) => ({ ...column, label: t(column.label) }))} />
    </div>`;
}
var PREVIEWED = [
  {
    key: "received",
    label: "events.received",
    width: 7,
    render: (one) => html`<a href=${href("events", { id: one.event_id })} title=${visible(one.event_type)}><${Time} at=${one.received_at} /></a>`
  },
  {
    key: "matches",
    label: "events.preview.matches",
    width: 6.5,
    render: (one) => html`<${Matches2} matches=${one.matches} />`
  },
  {
    key: "argument",
    label: "job.argument",
    render: (one) => html`<${Excerpt} value=${one.argument} isHidden=${one.argument_hidden} />`
  }
];
function Matches2({ matches }) {
  if (matches === null) return html`<span class="muted">${t("events.preview.unknown")}</span>`;
  return html`<${Badge} kind=${matches ? "ok" : "off"}>${t(matches ? "yes" : "no")}<//>`;
}
var MAX_SHOWN4 = 300;
function Excerpt({ value, isHidden }) {
  if (isHidden) return html`<span class="muted">${t("job.hidden")}</span>`;
  if (value === null || value === void 0) return html`<${Num} value=${null} />`;
  const text = visible(toJson(value).slice(0, MAX_SHOWN4));
  return html`<bdi class="line code-line" title=${text}>${text}</bdi>`;
}

// definitions/editor.js
var NAME2 = /^[A-Za-z0-9_.:-]{1,100}$/;
var COMING = 10;
var LAST_DAYS = 31;
var WORKING_DAYS = 5;
var KINDS5 = ["time", "event"];
var OVERLAPS = ["allow", "forbid", "replace", "queue"];
var CATCH_UPS = ["skip", "latest", "all"];
var DAY_RULES = ["none", "skip_holidays", "only_holidays", "next_workday", "previous_workday"];
var RETRY = (
  /** @type {const} */
  ["base_s", "factor", "max_s"]
);
var INSTANTS = ["starts_at", "ends_at"];
var JOB_LABELS = [
  "argument",
  "priority",
  "max_retry",
  "tags",
  "headers",
  "requires",
  "expires_s",
  "keep_result",
  "rerun_lost"
];
var isLeftOut = (job) => job.argument_hidden || job.argument === null && job.argument_bytes > 1;
function valuesOf2(one) {
  const job = one?.job;
  const retry = job?.retry ?? { base_s: 1, factor: 2, max_s: 3600, jitter: true };
  return {
    name: one?.name ?? "",
    kind: one?.kind ?? "time",
    description: one?.description ?? "",
    job_name: job?.name ?? "",
    argument: !job ? "null" : isLeftOut(job) ? "" : toJson(job.argument, 2),
    ...valuesOfSchedule(one?.schedule ?? null),
    ...valuesOfTrigger(one),
    time_zone: one?.time_zone ?? ownZone(),
    overlap: one?.overlap ?? "allow",
    catch_up: one?.catch_up ?? "latest",
    max_catch_up: String(one?.max_catch_up ?? 100),
    skip_late_after_s: String(one?.skip_late_after_s ?? 300),
    jitter_s: String(one?.jitter_s ?? 0),
    days_rule: one?.days?.rule ?? "none",
    days_calendar: one?.days?.calendar ?? "",
    starts_at: inputOf(one?.starts_at),
    ends_at: inputOf(one?.ends_at),
    enabled: one?.enabled === false ? "" : "yes",
    priority: String(job?.priority ?? 0),
    max_retry: String(job?.max_retry ?? 5),
    timeout: String(job?.timeout ?? 30),
    ...Object.fromEntries(RETRY.map((part) => [`retry_${part}`, String(retry[part])])),
    retry_jitter: retry.jitter ? "yes" : "",
    tags: (job?.tags ?? []).join(", "),
    headers: Object.entries(job?.headers ?? {}).map(([key, value]) => `${key}: ${value}`).join("\n"),
    requires: labelsText(job?.requires),
    expires_s: String(job?.expires_s ?? ""),
    keep_result: job?.keep_result ? "yes" : "",
    rerun_lost: job?.rerun_lost ? "yes" : ""
  };
}
function labelOf3(name) {
  if (INSTANTS.includes(name)) return inZone(t(`definitions.form.${name}`));
  if (name === "name") return t("job.name");
  if (name === "timeout") return t("job.timeout_s");
  if (DAYS.includes(name)) return dayText(name, "long");
  return triggerLabel(name) || jobLabel(name);
}
var jobLabel = (name) => JOB_LABELS.includes(name) ? t(`job.${name}`) : t(`definitions.form.${name}`);
var timesIn = (values2, base) => ({
  schedule: scheduleIn(values2),
  time_zone: (values2["time_zone"] ?? "").trim(),
  starts_at: editedInstant(values2["starts_at"] ?? "", base?.starts_at) || null,
  ends_at: editedInstant(values2["ends_at"] ?? "", base?.ends_at) || null,
  jitter_s: asNumber(values2["jitter_s"]) ?? 0,
  ...values2["days_rule"] !== "none" && {
    days: { calendar: values2["days_calendar"] ?? "", rule: values2["days_rule"] }
  }
});
function requestIn(values2, base) {
  const argument = argumentIn(values2);
  const headers = {};
  for (const line of (values2["headers"] ?? "").split("\n").filter((one) => one.trim())) {
    const at2 = line.indexOf(":");
    if (at2 < 1) throw refusal2("headers", t("enqueue.bad_header"));
    headers[line.slice(0, at2).trim()] = line.slice(at2 + 1).trim();
  }
  const tags = (values2["tags"] ?? "").split(",").map((tag) => tag.trim());
  const job = {
    priority: asNumber(values2["priority"]),
    max_retry: asNumber(values2["max_retry"]),
    timeout: asNumber(values2["timeout"]),
    retry: {
      ...Object.fromEntries(RETRY.map((part) => [part, asNumber(values2[`retry_${part}`])])),
      jitter: values2["retry_jitter"] === "yes"
    },
    tags: tags.filter(Boolean),
    headers,
    ...values2["requires"] && { requires: labelsIn(values2["requires"]) },
    ...values2["expires_s"] && { expires_s: asNumber(values2["expires_s"]) },
    keep_result: values2["keep_result"] === "yes",
    rerun_lost: values2["rerun_lost"] === "yes"
  };
  const rest = {
    description: values2["description"] ?? "",
    enabled: values2["enabled"] === "yes",
    overlap: values2["overlap"]
  };
  const start2 = isOfEvents(values2) ? triggerIn(values2) : toJson({ ...timesIn(values2, base), ...latenessIn(values2) }).slice(1, -1);
  const jobName = JSON.stringify((values2["job_name"] ?? "").trim());
  return `{"job":{"name":${jobName},"argument":${argument},${toJson(job).slice(1)},${start2},${toJson(rest).slice(1)}`;
}
var isOfEvents = (values2) => values2["kind"] === "event";
var latenessIn = (values2) => ({
  catch_up: values2["catch_up"],
  max_catch_up: asNumber(values2["max_catch_up"]),
  skip_late_after_s: asNumber(values2["skip_late_after_s"])
});
function argumentIn(values2) {
  if (isOfEvents(values2) && values2["argument_way"] !== "fixed") return "null";
  const argument = (values2["argument"] ?? "").trim();
  if (!argument) throw refusal2("argument", t("enqueue.argument.left_out"));
  let value;
  try {
    value = parseExact(argument);
  } catch (error) {
    throw refusal2("argument", `${t("enqueue.not_json")}: ${error instanceof Error ? error.message : ""}`);
  }
  if (isOfEvents(values2) && value === null) throw refusal2("argument", t("definitions.argument.null"));
  return argument;
}
function previewIn(values2, base) {
  const name = values2["name"]?.trim() ?? "";
  const also = toJson({ count: COMING, ...NAME2.test(name) && { name } }).slice(1);
  if (!isOfEvents(values2)) return `{${toJson(timesIn(values2, base)).slice(1, -1)},${also}`;
  if (!values2["event_type"]?.trim()) return "";
  try {
    const job = values2["argument_way"] === "fixed" ? `"job":{"name":"job","argument":${argumentIn(values2)}},` : "";
    return `{${job}${triggerIn(values2)},${also}`;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return "";
  }
}
var refusal2 = (field, msg) => new Problem(422, { title: msg, errors: [{ loc: ["job", field], msg }] });
function DefinitionEditor({ definition, onClose, onDone }) {
  useZone();
  const form = useForm(definition, valuesOf2);
  const { values: values2 } = form;
  const isEvents = isOfEvents(values2);
  const asked = previewIn(values2, form.base);
  const coming = useComing(asked);
  const shown2 = form.problem ?? coming.problem;
  const save = async (given, base) => {
    const name = given["name"]?.trim() ?? "";
    if (!NAME2.test(name)) {
      const msg = t(name ? "constraints.name.rule" : "constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    const text = requestIn(given, base).replace(/}$/, `,"reason":${JSON.stringify(base?.reason ?? "")}}`);
    await call("PUT", `api/definitions/${encodeURIComponent(name)}`, {
      text,
      headers: base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }
    });
    await onDone(name);
    return t(base ? "constraints.done.changed" : "constraints.done.created", { name: visible(name) });
  };
  const reread = () => get(`api/definitions/${encodeURIComponent(definition?.name ?? "")}`);
  return html`<${FormDialog}
      title=${definition ? `${t("definitions.edit")} · ${visible(definition.name)}` : t("definitions.make")}
      form=${form} onClose=${onClose} onSave=${save} labelOf=${labelOf3}
      reread=${definition ? reread : void 0} isNew=${definition === null}
      saveLabel=${definition ? t("save") : t("definitions.create")} isWide>
      <div class="form-grid">
        ${!definition && html`<${FormField}
              form=${form} name="name" problem=${shown2} label=${labelOf3("name")}
              hint=${t("constraints.name.rule")} maxlength="100" autocapitalize="none" spellcheck=${false} />
            <${FormField} form=${form} name="kind" as="select" label=${labelOf3("kind")}>
              ${KINDS5.map(
    (kind) => html`<option key=${kind} value=${kind}>${t(`definitions.kind_of.${kind}`)}</option>`
  )}
            <//>`}
        <${FormField} form=${form} name="description" label=${labelOf3("description")} maxlength="1000" />
      </div>
      <div class="form-grid">
        <fieldset class="plain-fields">
          <legend>${t(isEvents ? "events.which" : "definitions.when")}</legend>
          <div class="stack">
            ${isEvents ? html`<${WhichEvents} form=${form} problem=${shown2} />` : html`<${When} form=${form} problem=${shown2} />`}
          </div>
        </fieldset>
        <${Preview2} values=${values2} coming=${coming} isAsked=${asked !== ""} />
      </div>
      <fieldset class="plain-fields">
        <legend>${t("nav.job")}</legend>
        <${JobFields}
          form=${form} problem=${shown2} isLeftOut=${definition !== null && isLeftOut(definition.job)} />
      </fieldset>
      <fieldset class="plain-fields">
        <legend>${t("definitions.rules")}</legend><${Rules} form=${form} problem=${shown2} />
      </fieldset>
      <${FormCheck} form=${form} name="enabled">${labelOf3("enabled")}<//>
    <//>`;
}
function Preview2({ values: values2, coming, isAsked }) {
  if (isOfEvents(values2)) {
    const label2 = t("events.preview");
    return html`<section class="preview" aria-live="polite"><h3>${label2}</h3><${EventsTable} coming=${coming} isAsked=${isAsked} label=${label2} /></section>`;
  }
  const zone = (values2["time_zone"] ?? "").trim();
  const label = t("definitions.next", { count: COMING });
  return html`<section class="preview" aria-live="polite">
      <h3>${label}</h3>
      <${ComingTable}
        coming=${coming} zone=${zone} jitterMs=${Number(values2["jitter_s"]) * 1e3 || 0} label=${label} />
    </section>`;
}
function When({ form, problem }) {
  const way = form.values["way"];
  return html`<${FormField} form=${form} name="way" as="select" label=${labelOf3("way")}>
      ${WAYS.map((one) => html`<option key=${one} value=${one}>${t(`definitions.way.${one}`)}</option>`)}
    <//>
    <${WayFields} form=${form} problem=${problem} />
    <${FormField}
      form=${form} name="time_zone" problem=${problem} label=${labelOf3("time_zone")}
      hint=${way === "every" ? t("definitions.every.hint") : void 0} list="zones" maxlength="64"
      autocapitalize="none" spellcheck=${false} />
    <${DaysOff} form=${form} problem=${problem} />
    <datalist id="zones">${zones().map((zone) => html`<option key=${zone} value=${zone} />`)}</datalist>`;
}
function WayFields({ form, problem }) {
  const field = (name, path, more = {}) => html`<${FormField} key=${name} form=${form} name=${name} path=${`schedule.${path}`} problem=${problem} label=${labelOf3(name)} ...${more} />`;
  const clock = (path) => field("time", path, { type: "time", required: true });
  switch (form.values["way"]) {
    case "every":
      return html`<div class="form-grid">
          ${field("every", "every_minutes", { type: "number", min: "1", step: "1" })}
          <${FormField} form=${form} name="every_unit" as="select" label=${labelOf3("every_unit")}>
            <option value="minutes">${t("definitions.minutes")}</option>
            <option value="hours">${t("definitions.hours")}</option>
          <//>
          ${field("offset", "offset", {
        type: "number",
        min: "0",
        step: "1",
        hint: t("definitions.offset.hint")
      })}
        </div>`;
    case "hourly":
      return field("minute", "hourly_at", { type: "number", min: "0", max: "59", step: "1" });
    case "daily":
      return clock("daily_at");
    case "weekly":
      return html`<${Weekdays} form=${form} problem=${problem} />${clock("at")}`;
    case "monthly":
      return html`<div class="form-grid">
          <${DayOfMonth} form=${form} problem=${problem} />${clock("cron")}
        </div>`;
    case "cron":
      return field("cron", "cron", {
        maxlength: "200",
        placeholder: "*/15 8-18 * * MON-FRI",
        autocapitalize: "none",
        spellcheck: false,
        hint: t("definitions.cron.hint")
      });
    default:
      return null;
  }
}
function Weekdays({ form, problem }) {
  const errors = fieldErrors(problem, "schedule.weekly_on");
  return html`<fieldset class="plain-set">
      <legend>${t("definitions.days")}</legend>
      <div class="row">
        ${DAYS.map(
    (day) => html`<${FormCheck} key=${day} form=${form} name=${day}><span>${dayText(day)}</span><//>`
  )} <${Button}
          class="small"
          onClick=${() => form.set(Object.fromEntries(DAYS.map((day, at2) => [day, at2 < WORKING_DAYS ? "yes" : ""])))}>
          ${dayText("mon")}–${dayText("fri")}
        <//>
      </div>
      ${errors.length > 0 && html`<p class="field-error">${visible(errors.join("; "))}</p>`}
    </fieldset>`;
}
function DayOfMonth({ form, problem }) {
  return html`<${FormField}
      form=${form} name="day_of_month" as="select" problem=${problem} path="schedule.cron"
      label=${labelOf3("day_of_month")}
      hint=${Number(form.values["day_of_month"]) > 28 ? t("definitions.short_months") : void 0}>
      ${Array.from(
    { length: LAST_DAYS },
    (_, at2) => html`<option key=${at2} value=${String(at2 + 1)}>${String(at2 + 1)}</option>`
  )}
      <option value="L">${t("definitions.last_day")}</option>
    <//>`;
}
function DaysOff({ form, problem }) {
  const { data } = useResource((signal) => get("api/calendars", {}, signal), []);
  const isOn = form.values["days_rule"] !== "none";
  const stored = form.values["days_calendar"] ?? "";
  const names = (
    /** @type {string[]} */
    (data?.calendars ?? []).map((one) => one.name)
  );
  const all = stored && !names.includes(stored) ? [stored, ...names] : names;
  const first = all[0] ?? "";
  W2(() => {
    if (isOn && !stored && first) form.set({ days_calendar: first });
  }, [isOn, stored, first]);
  return html`<div class="form-grid">
      <${FormField}
        form=${form} name="days_rule" as="select" path="days.rule" problem=${problem}
        label=${labelOf3("days_rule")} hint=${isOn ? t("definitions.days_rule.hint") : void 0}>
        ${DAY_RULES.map(
    (one) => html`<option key=${one} value=${one}>${t(`definitions.days_rule.${one}`)}</option>`
  )}
      <//>
      ${isOn && html`<${FormField}
            form=${form} name="days_calendar" as="select" path="days.calendar" problem=${problem}
            disabled=${all.length === 0} label=${labelOf3("days_calendar")}
            hint=${data && all.length === 0 ? t("definitions.days.no_calendar") : void 0}>
            ${all.map((one) => html`<option key=${one} value=${one}>${visible(one)}</option>`)}
          <//>`}
    </div>`;
}
function JobFields({ form, problem, isLeftOut: isArgumentLeftOut }) {
  const names = useKnownNames();
  const field = (name, more = {}) => html`<${FormField} form=${form} name=${name} path=${`job.${name}`} label=${labelOf3(name)} ...${more} />`;
  const argument = field("argument", {
    as: "textarea",
    rows: "4",
    hint: html`<${JsonHint} />`,
    spellcheck: false
  });
  return html`<div class="stack">
      <${FormField}
        form=${form} name="job_name" path="job.name" label=${labelOf3("job_name")}
        hint=${t("enqueue.name.hint")} list="known-job-names" maxlength="200" autocapitalize="none"
        spellcheck=${false} />
      <datalist id="known-job-names">
        ${names.map((name) => html`<option key=${name} value=${name} />`)}
      </datalist>
      ${isArgumentLeftOut && html`<p class="warning" role="note">${t("definitions.argument.hidden")}</p>`}
      ${isOfEvents(form.values) ? html`<${EventArgument} form=${form} problem=${problem}>${argument}<//>` : argument}
      <div class="form-grid">
        ${field("timeout", { type: "number", min: "0.001", step: "any" })}
        ${field("max_retry", { type: "number", min: "0", max: "1000", step: "1" })}
        ${field("priority", { type: "number", step: "1", hint: t("job.priority.hint") })}
        ${field("tags", { hint: t("enqueue.tags.hint"), spellcheck: false })}
        ${field("requires", { hint: t("job.requires.hint"), spellcheck: false })}
        ${field("expires_s", { type: "number", min: "0.001", step: "any", hint: t("job.expires_s.hint") })}
        ${RETRY.map(
    (part) => html`<${FormField}
                key=${part} form=${form} name=${`retry_${part}`} path=${`job.retry.${part}`}
                label=${labelOf3(`retry_${part}`)} type="number" min="0" step="any" />`
  )}
      </div>
      ${field("headers", {
    as: "textarea",
    class: "short",
    rows: "2",
    hint: t("enqueue.headers.hint"),
    spellcheck: false
  })}
      <div class="row">
        ${["retry_jitter", "keep_result", "rerun_lost"].map(
    (name) => html`<${FormCheck} key=${name} form=${form} name=${name}><span>${labelOf3(name)}</span><//>`
  )}
      </div>
    </div>`;
}
function Rules({ form, problem }) {
  const choice = (name, all) => html`<${FormField}
        form=${form} name=${name} as="select" label=${labelOf3(name)}
        hint=${t(`definitions.${name}.${form.values[name]}.text`)}>
        ${all.map((one) => html`<option key=${one} value=${one}>${t(`definitions.${name}.${one}`)}</option>`)}
      <//>`;
  const field = (name, more) => html`<${FormField} form=${form} name=${name} problem=${problem} label=${labelOf3(name)} ...${more} />`;
  if (isOfEvents(form.values)) {
    const overlaps = OVERLAPS.filter((one) => one !== "queue" || form.values["overlap"] === one);
    return html`<div class="form-grid">${choice("overlap", overlaps)}<${Gathering} form=${form} problem=${problem} /></div>`;
  }
  return html`<div class="form-grid">${choice("overlap", OVERLAPS)}
    ${field("skip_late_after_s", { type: "number", min: "1", step: "any", hint: t("definitions.skip_late.hint") })}
    ${choice("catch_up", CATCH_UPS)}
    ${field("max_catch_up", { type: "number", min: "1", max: "1000", step: "1" })}
    ${field("jitter_s", { type: "number", min: "0", step: "any", hint: t("definitions.jitter.hint") })}
    ${INSTANTS.map((name) => field(name, { type: "datetime-local", step: "1", max: LATEST }))}</div>`;
}
function useKnownNames() {
  const { data } = useResource((signal) => get("api/workers", {}, signal), [], { everyMs: 15e3 });
  const able = (data?.workers ?? []).filter((worker) => worker.state === "fresh");
  return [...new Set(able.flatMap((worker) => worker.names))].sort().slice(0, 500);
}

// events/dialogs.js
function startedText(answer) {
  if (answer.duplicate) return t("events.sent.duplicate");
  const waiting = answer.runs.filter((run) => run.outcome === "waiting").length;
  const parts = [
    t("events.sent", { count: answer.job_ids.length }),
    waiting > 0 && t("events.sent.waiting", { count: waiting }),
    answer.runs.length === 0 && t("events.sent.unmatched")
  ];
  return parts.filter(Boolean).join(" ");
}
var valuesOf3 = (like) => ({
  event_type: like?.event_type ?? "",
  payload: toJson(like && "payload" in like ? like.payload : {}, 2),
  source: like?.source ?? "",
  subject: like?.subject ?? "",
  dedupe_key: "",
  occurred_at: ""
});
function requestIn2(values2) {
  const payload = (values2["payload"] ?? "").trim() || "null";
  try {
    parseExact(payload);
  } catch (error) {
    const msg = `${t("events.not_json")}: ${error instanceof Error ? error.message : ""}`;
    throw new Problem(422, { title: msg, errors: [{ loc: ["payload"], msg }] });
  }
  const rest = {
    event_type: (values2["event_type"] ?? "").trim(),
    source: values2["source"] ?? "",
    subject: values2["subject"] ?? "",
    ...values2["dedupe_key"] && { dedupe_key: values2["dedupe_key"] },
    ...values2["occurred_at"] && { occurred_at: instantIn(values2["occurred_at"]) }
  };
  return `{"payload":${payload},${toJson(rest).slice(1)}`;
}
function SendEvent({ like, onClose, onDone }) {
  useZone();
  const form = useForm(like, valuesOf3);
  const types = useKnownTypes();
  const send = async (values2) => {
    const answer = (
      /** @type {EventAnswer} */
      await call("POST", "api/events", { text: requestIn2(values2) })
    );
    await onDone?.();
    go("events", { id: answer.event_id });
    return startedText(answer);
  };
  const field = (name, more = {}) => html`<${FormField} form=${form} name=${name} label=${t(`events.${name}`)} ...${more} />`;
  return html`<${FormDialog} title=${t("events.send.title")} form=${form} onClose=${onClose} onSave=${send} isNew saveLabel=${t("events.send")}>
    <p class="muted">${t("events.send.text")}</p>
    ${field("event_type", { list: "sent-event-types", placeholder: "order.paid", maxlength: "200", autocapitalize: "none", spellcheck: false })}
    <datalist id="sent-event-types">${types.map((type) => html`<option key=${type} value=${type} />`)}</datalist>
    ${field("payload", { as: "textarea", rows: "7", hint: html`<${JsonHint} />`, spellcheck: false })}
    <div class="form-grid">${field("source", { maxlength: "1024", spellcheck: false })}${field("subject", { maxlength: "1024", spellcheck: false })}
      ${field("dedupe_key", { maxlength: "255", hint: t("events.dedupe_key.hint"), spellcheck: false })}
      ${field("occurred_at", { label: inZone(t("events.occurred_at")), type: "datetime-local", step: "1", max: LATEST })}</div><//>`;
}
function ReplayEvent({ event, onClose }) {
  const replay = async () => {
    const answer = await post(`api/events/${encodeURIComponent(event.event_id)}/replay`);
    toast(startedText(answer));
    go("events", { id: answer.event_id });
  };
  return html`<${ConfirmCount}
      title=${t("events.replay.title")} count=${1} counted=${t("events.replay.count")}
      verb=${t("events.replay")} kind="primary" onClose=${onClose} onConfirm=${replay}>
      <p>${t("events.replay.text")}</p>
    <//>`;
}

// definitions/definition_page.js
var COMING2 = 10;
var PAGE7 = 30;
var OUTCOMES2 = ["", "fired", "skipped", "missed"];
var FIELDS4 = ["kind", "enabled", "reason", "description", "overlap"];
var TIME_FIELDS = [
  "schedule",
  "time_zone",
  "starts_at",
  "ends_at",
  "jitter_s",
  "skip_late_after_s",
  "catch_up",
  "max_catch_up",
  "days"
];
var EVENT_FIELDS = ["event_type", "matcher", "argument", "debounce", "collect"];
var JOB_FIELDS = [
  "name",
  "argument",
  "priority",
  "max_retry",
  "keep_result",
  "timeout",
  "retry",
  "rerun_lost",
  "tags",
  "headers",
  "requires",
  "expires_s"
];
var isTime = (one) => one.kind === "time";
var only = (one, fields) => Object.fromEntries(fields.map((field) => [field, one[field]]));
function Definition({ name, query, go: go3, session: session2 }) {
  const path = (
    /** @type {const} */
    `api/definitions/${encodeURIComponent(name)}`
  );
  const [isEditing, setEditing] = E2(false);
  const [sending2, setSending] = E2(
    /** @type {Sending | null} */
    null
  );
  useTitle(name);
  const found = useResource((signal) => get(path, {}, signal), [name], {
    events: ["definitions", "events", "jobs"],
    leastMs: 2e3,
    everyMs: 5e3
  });
  const one = found.data;
  if (!one) return html`<${Absent} page="definitions" title=${t("definitions.unknown")} found=${found} />`;
  const mayOperate = may(session2, "operate");
  return html`<p class="crumbs"><a href=${href("definitions")}>${t("nav.definitions")}</a></p>
    <div class="page-head job-head">
      <h1>${visible(one.name)}</h1>
      <span>${!one.enabled && html`<${Badge} kind="warn">${t("enqueue.paused")}<//>`}</span>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${mayOperate && html`<${Actions5} one=${one} path=${path} session=${session2} onEdit=${() => setEditing(true)} onSend=${setSending} onDone=${found.reload} />`}
    <${Skips} one=${one} />
    <div class="job-grid">
      <div class="stack">
        <${Facts3} one=${one} mayOperate=${mayOperate} /><${Job} job=${one.job} made=${one.argument} />
      </div>
      ${isTime(one) ? html`<${Coming} one=${one} />` : html`<${NewestEvents} one=${one} />`}
    </div>
    <${Runs} one=${one} query=${query} go=${go3} />
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${isEditing && html`<${DefinitionEditor} definition=${one} onClose=${() => setEditing(false)} onDone=${found.reload} />`}
    ${sending2 && html`<${SendEvent} like=${sending2.like} onClose=${() => setSending(null)} />`}`;
}
function Actions5({ one, path, session: session2, onEdit, onSend, onDone }) {
  const { name } = one;
  const ask3 = (what) => () => askAbout({ what, name, onDone });
  const body = () => ({
    ...only(one, [...FIELDS4, ...isTime(one) ? TIME_FIELDS : EVENT_FIELDS]),
    job: only(one.job, JOB_FIELDS)
  });
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
          <${Button} opensDialog kind="primary" onClick=${onEdit}>${t("definitions.edit")}<//>
          ${one.enabled ? html`<${Button} opensDialog onClick=${ask3("pause")}>${t("constraints.pause")}<//>` : html`<${Button} onClick=${() => resumeDefinition(name, onDone)}>${t("constraints.unpause")}<//>`}
          ${isTime(one) && html`<${Button} opensDialog onClick=${ask3("run")}>${t("definitions.run")}<//>`}
          ${isTime(one) && html`<${Button} opensDialog onClick=${ask3("backfill")}>${t("definitions.backfill")}<//>`}
          ${!isTime(one) && may(session2, "push") && html`<${Button} opensDialog onClick=${async () => onSend({ like: await newestLike(one.event_type ?? "") })}>${t("events.send_test")}<//>`}
          ${!one.job.argument_hidden && html`<${Copy} label=${t("copy.curl")} text=${() => curl(session2, "PUT", path, { body: body() })} />`}
          <${Button} opensDialog kind="danger" onClick=${ask3("delete")}>${t("action.delete")}<//>
        </div>`;
}
async function newestLike(type) {
  const none = /[*?[]/.test(type) ? null : { event_type: type };
  try {
    const [newest] = (await get("api/events", { type, limit: 1 })).events;
    if (!newest) return none;
    const { event_type, payload, payload_hidden, payload_redacted, payload_bytes } = newest;
    const isWhole = !payload_hidden && !payload_redacted && (payload !== null || payload_bytes <= 1);
    return isWhole ? { event_type, payload } : { event_type };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return none;
  }
}
function Skips({ one }) {
  const isSkipped = one.enabled && one.last_run?.outcome === "skipped";
  const { data } = useResource(
    (signal) => isSkipped ? get(`api/definitions/${encodeURIComponent(one.name)}/why`, {}, signal) : Promise.resolve(null),
    [one.name, isSkipped, one.last_run?.due_at],
    { events: ["jobs"], leastMs: 3e3 }
  );
  const waits = data?.job_id && data.job_state !== "running" ? data.job_id : null;
  const why = useResource(
    (signal) => waits ? get(`api/jobs/${encodeURIComponent(waits)}/why`, {}, signal) : Promise.resolve(null),
    [waits],
    { events: ["jobs", "workers", "constraints"], leastMs: 3e3 }
  );
  if (!data || data.skipped_in_a_row === 0) return null;
  const verdict = why.data?.verdicts[0];
  return html`<section class=${`fault ${data.is_fault ? "warn" : "info"}`} aria-label=${t("definitions.why")}>
      <${Badge} kind=${data.is_fault ? "warn" : "info"}>${t(data.is_fault ? "fault.warn" : "fault.info")}<//>
      <span class="fault-text">
        ${t("definitions.why.skips", { count: data.skipped_in_a_row, reason: reasonText2(data.reason ?? "") })}
        ${data.job_id && html` ${t("definitions.why.waits")} <${Id}
              id=${data.job_id} href=${href("job", { id: data.job_id })} /> ${data.job_state && html`<${State} state=${data.job_state} />`}`}
        ${why.data && verdict && html` · <${Text} value=${verdictText(verdict, why.data)} max=${300} />`}
        ${data.next_due_at && html` · ${t("definitions.next_due")}: <${Time} at=${data.next_due_at} />`}
      </span>
      ${data.is_fault && html`<${RunbookLink} code="skipping_definition" />`}
    </section>`;
}
function Facts3({ one, mayOperate }) {
  return html`<section class="card">
      <h2>${t(isTime(one) ? "definitions.when" : "events.starts")}</h2>
      <dl class="facts">
        ${one.description && html`<dt>${t("definitions.form.description")}</dt><dd><${Text} value=${one.description} max=${300} isBlock /></dd>`}
        ${!one.enabled && one.reason && html`<dt>${t("pause.reason")}</dt><dd><${Text} value=${one.reason} max=${500} /></dd>`}
        <dt>${t(isTime(one) ? "definitions.schedule" : "events.which")}</dt><dd>${startText(one)}</dd>
        ${isTime(one) && html`<dt>${t("definitions.next_due")}</dt><dd>${one.next_due_at ? html`<${Time} at=${one.next_due_at} />` : t("definitions.never_again")}</dd>`}
        ${one.days && html`<dt>${t("definitions.form.days_rule")}</dt>
            <dd>
              ${t(`definitions.days_rule.${one.days.rule}`)} · <a
                href=${href("calendars", { name: one.days.calendar })}>
                ${visible(one.days.calendar)}
              </a>
              ${one.calendar_ends_at && html` <span class="muted">${t("calendars.covers_until")} ${one.calendar_ends_at}</span>`}
            </dd>`}
        ${!isTime(one) && html`<${Trigger} one=${one} />`}
        ${one.queued_at && html`<dt>${t("definitions.queued")}</dt><dd><${Time} at=${one.queued_at} /></dd>`}
        <dt>${t("definitions.last_run")}</dt>
        <dd>
          ${one.last_run ? html`<${Time} at=${one.last_run.due_at} isPast /> <${Outcome} run=${one.last_run} />` : html`<${Num} value=${null} />`}
        </dd>
        <dt>${t("definitions.form.overlap")}</dt><dd>${t(`definitions.overlap.${one.overlap}`)}</dd>
        <${Bounds} one=${one} />
        ${one.created_by && html`<dt>${t("pause.by")}</dt><dd title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</dd>`}
        <dt>${t("constraints.changed")}</dt>
        <dd>
          <${Time} at=${one.changed_at} />
          ${mayOperate && html` · <a href=${href("audit", { target: one.name })}>${t("nav.audit")}</a>`}
        </dd>
      </dl>
    </section>`;
}
function Bounds({ one }) {
  return html`${isTime(one) && html`<dt>${t("definitions.form.catch_up")}</dt>
            <dd>
              ${t(`definitions.catch_up.${one.catch_up}`)} <span class="muted">
                ${t("definitions.late_after")} <${Duration} ms=${one.skip_late_after_s * 1e3} />
              </span>
            </dd>`}
        ${one.jitter_s > 0 && html`<dt>${t("definitions.form.jitter_s")}</dt><dd><${Duration} ms=${one.jitter_s * 1e3} /></dd>`}
        ${one.starts_at && html`<dt>${t("definitions.form.starts_at")}</dt><dd><${Time} at=${one.starts_at} /></dd>`}
        ${one.ends_at && html`<dt>${t("definitions.form.ends_at")}</dt><dd><${Time} at=${one.ends_at} /></dd>`}`;
}
function Job({ job, made }) {
  const isTooLarge2 = job.argument === null && job.argument_bytes > 1;
  return html`<section class="card">
      <h2>${t("nav.job")}</h2>
      <dl class="facts">
        <dt>${t("job.name")}</dt>
        <dd><a href=${href("names", { name: job.name })}><${Text} value=${job.name} max=${100} /></a></dd>
        <dt>${t("job.timeout")}</dt><dd><${Duration} ms=${job.timeout * 1e3} /></dd>
        <dt>${t("job.max_retry")}</dt><dd><${Num} value=${job.max_retry} /></dd><dt>${t("job.priority")}</dt>
        <dd><${Num} value=${job.priority} /></dd>
        ${job.expires_s && html`<dt>${t("job.expires")}</dt><dd><${Duration} ms=${job.expires_s * 1e3} /></dd>`}
        ${job.requires && html`<dt>${t("job.requires")}</dt><dd><${Text} value=${labelsText(job.requires)} max=${200} /></dd>`}
        ${job.tags.length > 0 && html`<dt>${t("job.tags")}</dt><dd>${job.tags.map((tag) => html`<span key=${tag} class="chip"><${Text} value=${tag} max=${64} /></span> `)}</dd>`}
      </dl>
      <h3>${t("job.argument")}</h3>
      ${job.argument_hidden || isTooLarge2 ? html`<p class="muted">${t("job.hidden")}</p>` : html`<${Value} value=${made ?? job.argument} label=${t("job.argument")} />`}
    </section>`;
}
function Coming({ one }) {
  const times = only(one, ["schedule", "time_zone", "starts_at", "ends_at", "jitter_s"]);
  const coming = useComing(toJson({ ...times, name: one.name, count: COMING2 }), one.next_due_at);
  const label = t("definitions.next", { count: COMING2 });
  return html`<section class="card coming-card">
      <h2>${label}</h2>
      ${!one.enabled && html`<p class="muted">${t("definitions.next.paused")}</p>`}
      <${ComingTable} coming=${coming} zone=${one.time_zone} jitterMs=${one.jitter_s * 1e3} label=${label} />
    </section>`;
}
function Trigger({ one }) {
  const gathering = gatheringText(one);
  return html`${one.matcher && html`<dt>${t("constraints.matcher")}</dt><dd><${RuleText} matcher=${one.matcher} /></dd>`}
    ${gathering && html`<dt>${t("events.form.gathering")}</dt><dd>${gathering}</dd>`}
    <dt>${t("nav.events")}</dt><dd><a href=${href("events", { definition: one.name })}>${t("events.of_definition")}</a></dd>`;
}
function NewestEvents({ one }) {
  const job = one.argument === null ? { job: only(one.job, ["name", "argument"]) } : {};
  const coming = useComing(
    toJson({ ...only(one, ["kind", ...EVENT_FIELDS]), ...job, count: COMING2 }),
    one.last_run?.recorded_at
  );
  const label = t("events.preview");
  return html`<section class="card coming-card"><h2>${label}</h2><${EventsTable} coming=${coming} isAsked label=${label} /></section>`;
}
var dueOf = (run) => `${run.due_at} ${run.event_id ?? ""}`;
function Runs({ one, query, go: go3 }) {
  const hold = useHold();
  const outcome = OUTCOMES2.includes(query["outcome"] ?? "") ? query["outcome"] : "";
  const path = (
    /** @type {const} */
    `api/definitions/${encodeURIComponent(one.name)}/runs`
  );
  const of2 = JSON.stringify([one.name, outcome, query["cursor"]]);
  const found = useResource(
    async (signal) => ({
      ...await get(path, { outcome, cursor: query["cursor"], limit: PAGE7 }, signal),
      of: of2
    }),
    [of2],
    { events: ["definitions", "events", "jobs"], leastMs: 2e3, everyMs: 5e3 }
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.runs ?? [],
    dueOf,
    hold.isHeld,
    found.data?.of ?? ""
  );
  const change2 = (changes) => go3("definitions", { name: one.name, outcome, ...changes });
  const served = useServed();
  const isWhole = !outcome && !query["cursor"];
  return html`<section class="card after">
      <div class="page-head">
        <h2>${t("definitions.runs")}</h2>
        ${isWhole && found.data && html`<${RunStrip} runs=${found.data.runs.slice(0, STRIP)} /> <${Unserved}
              name=${one.job.name} runs=${found.data.runs.slice(0, STRIP)} served=${served} />`}
        <${FilterChoice}
          label=${t("definitions.outcome")} value=${outcome} options=${OUTCOMES2.map((key) => [
    key,
    t(key ? `definitions.outcome.${key}` : "definitions.state.all")
  ])}
          onChange=${(key) => change2({ outcome: key })} />
      </div>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<${NewRows} count=${newCount} onShow=${showNew} />
            <div ...${hold.bind}>
              <${Table}
                isFixed caption=${t("definitions.runs")} rows=${rows} rowKey=${dueOf}
                columns=${columnsOf3(one).map((column) => ({ ...column, label: t(column.label) }))}
                empty=${html`<p class="muted">${t(isTime(one) ? "definitions.no_runs" : "events.no_runs")}</p>`} />
            </div>`}
      <${Pager}
        hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
        isLoading=${found.isLoading} onNext=${() => change2({ cursor: found.data?.next_cursor ?? null })}
        onFirst=${() => change2({})} />
    </section>`;
}
var RUN_COLUMNS = [
  {
    key: "outcome",
    label: "definitions.outcome",
    phone: "side",
    render: (run) => html`<${Outcome} run=${run} />`
  },
  { key: "job", label: "nav.job", phone: "line", render: (run) => html`<${RunJob} run=${run} />` }
];
var OF_TIME = [
  {
    key: "due",
    label: "definitions.due",
    width: 11,
    phone: "main",
    render: (run) => html`<${Time} at=${run.due_at} isPast />`
  },
  {
    key: "late",
    label: "definitions.lateness",
    align: "end",
    width: 7,
    priority: 2,
    render: (run) => html`<${Lateness} run=${run} />`
  }
];
var OF_EVENTS = [
  {
    key: "due",
    label: "events.received",
    width: 11,
    phone: "main",
    render: (run) => html`<${Time} at=${run.due_at} isPast />`
  },
  {
    key: "event",
    label: "events.event",
    width: 9,
    priority: 2,
    render: (run) => run.event_id ? html`<${Id} id=${run.event_id} href=${href("events", { id: run.event_id })} />` : html`<${Num} value=${null} />`
  }
];
function columnsOf3(one) {
  const [outcome, job] = (
    /** @type {[RunColumn, RunColumn]} */
    RUN_COLUMNS
  );
  const [due, more] = (
    /** @type {[RunColumn, RunColumn]} */
    isTime(one) ? OF_TIME : OF_EVENTS
  );
  return [due, outcome, more, job];
}

// definitions/pages/definitions.js
var PAGE8 = 25;
var STATES2 = ["", "enabled", "paused", "troubled"];
var KINDS6 = ["", "time", "event"];
var EXAMPLE3 = {
  job: { name: "report.send", argument: { kind: "daily" } },
  schedule: { daily_at: "02:30" },
  time_zone: "Asia/Tokyo"
};
function Page8({ query, go: go3, session: session2 }) {
  return html`${query["name"] ? html`<${Definition} key=${query["name"]} name=${query["name"]} query=${query} go=${go3} session=${session2} />` : html`<${List4} query=${query} go=${go3} session=${session2} />`}<${DefinitionDialogs} />`;
}
var nameOf4 = (one) => one.name;
function List4({ query, go: go3, session: session2 }) {
  const hold = useHold();
  const [isMaking, setMaking] = E2(false);
  const state = STATES2.includes(query["state"] ?? "") ? query["state"] : "";
  const kind = KINDS6.includes(query["kind"] ?? "") ? query["kind"] : "";
  const of2 = JSON.stringify([query["q"], state, kind, query["cursor"]]);
  const found = useResource(
    async (signal) => {
      const wanted = { q: query["q"], state, kind, cursor: query["cursor"], runs: STRIP, limit: PAGE8 };
      return { ...await get("api/definitions", wanted, signal), of: of2 };
    },
    [of2],
    { events: ["definitions", "events", "jobs"], leastMs: 2e3, everyMs: 5e3 }
  );
  const { rows } = useSteadyRows(found.data?.definitions ?? [], nameOf4, hold.isHeld, found.data?.of ?? "");
  const served = useServed();
  const mayOperate = may(session2, "operate");
  const change2 = (changes, replace = false) => go3("definitions", { ...query, cursor: "", ...changes }, { replace });
  const isFiltered = Boolean(query["q"] || state || kind);
  return html`<div class="page-head">
      <h1>${t("nav.definitions")}</h1>
      ${mayOperate && html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t("definitions.make")}<//>`}
    </div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      <${FilterInput}
        label=${t("names.contains")} value=${query["q"] ?? ""}
        onChange=${(q3) => change2({ q: q3 }, true)} />
      <${FilterChoice}
        label=${t("job.state")} value=${state}
        options=${STATES2.map((one) => [one, t(`definitions.state.${one || "all"}`)])}
        onChange=${(one) => change2({ state: one })} />
      <${FilterChoice}
        label=${t("definitions.form.kind")} value=${kind}
        options=${KINDS6.map((one) => [one, t(`definitions.kind_of.${one || "all"}`)])}
        onChange=${(one) => change2({ kind: one })} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${Table}
              isFixed caption=${t("nav.definitions")} rows=${rows} rowKey=${nameOf4} label=${nameOf4}
              onOpen=${(one) => go3("definitions", { name: one.name })}
              columns=${[...columnsOf4(served), ...mayOperate ? [actions(found.reload)] : []]}
              empty=${html`<${NoDefinitions} isFiltered=${isFiltered} session=${session2} />`} />
          </div>`}
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go3("definitions", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => change2({})} />
    ${isMaking && html`<${DefinitionEditor} definition=${null} onClose=${() => setMaking(false)} onDone=${(name) => go3("definitions", { name })} />`}`;
}
function NoDefinitions({ isFiltered, session: session2 }) {
  const example = { curl: curl(session2, "PUT", "api/definitions/nightly-report", { body: EXAMPLE3 }) };
  return html`<div class="card">
      <${Empty}
        title=${t(isFiltered ? "definitions.empty.filtered" : "definitions.empty")}
        ...${!isFiltered && example} />
    </div>`;
}
var COLUMNS2 = [
  {
    key: "name",
    label: "job.name",
    phone: "main",
    width: 11,
    render: (one) => html`<a href=${href("definitions", { name: one.name })} title=${visible(one.name)}>${visible(one.name)}</a>`
  },
  {
    key: "schedule",
    label: "definitions.schedule",
    priority: 2,
    phone: "line",
    render: (one) => {
      const text = startText(one);
      return html`<span title=${text}>${text}</span>`;
    }
  },
  {
    key: "next",
    label: "definitions.next_due",
    width: 8.5,
    phone: "side",
    render: (one) => !one.enabled ? html`<${Badge} kind="warn">${t("enqueue.paused")}<//>` : one.next_due_at ? html`<${Time} at=${one.next_due_at} />` : html`<${Num} value=${null} />`
  },
  {
    key: "last",
    label: "definitions.last_run",
    width: 7.5,
    priority: 2,
    render: (one) => html`<${Time} at=${one.last_run?.due_at} />`
  },
  {
    key: "outcome",
    label: "definitions.outcome",
    width: 9.5,
    priority: 4,
    render: (one) => one.last_run ? html`<${Outcome} run=${one.last_run} />` : html`<${Num} value=${null} />`
  },
  {
    key: "late",
    label: "definitions.lateness",
    align: "end",
    width: 5.2,
    priority: 3,
    render: (one) => html`<${Lateness} run=${one.last_run} />`
  },
  {
    key: "runs",
    label: "definitions.last_runs",
    width: 12.5,
    priority: 2,
    render: (one) => html`<${RunStrip} runs=${one.runs ?? []} />`
  }
];
var columnsOf4 = (served) => COLUMNS2.map((column) => ({
  ...column,
  label: t(column.label),
  ...column.key === "schedule" && {
    render: (one) => html`${column.render(one)}<${Unserved} name=${one.job.name} runs=${one.runs ?? []} served=${served} class="block" />`
  }
}));
var actions = (onDone) => ({
  key: "act",
  label: html`<span class="sr">${t("job.actions")}</span>`,
  width: 5,
  phone: "side",
  render: (one) => html`<${RowActions} one=${one} onDone=${onDone} />`
});

// calendars/editor.js
var SOURCES = ["country", "dates", "ical"];
var USUAL = ["sat", "sun"];
var TYPING_MS7 = 600;
var SHOWN3 = 20;
var LINE = /^(\d{4}-\d{2}-\d{2})\s+(\S.*)$/;
var pathOfCalendar = (name) => (
  /** @type {const} */
  `api/calendars/${encodeURIComponent(name)}`
);
var valuesOf4 = (one) => ({
  name: one?.name ?? "",
  source: one?.source ?? "country",
  country: one?.country ?? "",
  subdivision: one?.subdivision ?? "",
  language: one?.language ?? "",
  dates: (one?.dates ?? []).map((day) => `${day.date} ${day.name}`).join("\n"),
  ical: one?.ical ?? "",
  own_weekend: one ? "yes" : "",
  ...Object.fromEntries(DAYS.map((day) => [day, (one?.weekend ?? USUAL).includes(day) ? "yes" : ""]))
});
function calendarIn(values2) {
  const weekend = values2["own_weekend"] ? { weekend: DAYS.filter((day) => values2[day]) } : {};
  const text = (name) => (values2[name] ?? "").trim();
  if (values2["source"] === "ical") return { ical: values2["ical"] ?? "", ...weekend };
  if (values2["source"] === "dates") {
    const lines2 = text("dates").split("\n");
    return { dates: lines2.filter((line) => line.trim()).map(dayIn2), ...weekend };
  }
  return {
    country: text("country").toUpperCase(),
    subdivision: text("subdivision") || null,
    language: text("language") || null,
    ...weekend
  };
}
function dayIn2(line, at2) {
  const [, date = "", name = ""] = LINE.exec(line.trim()) ?? [];
  if (date) return { date, name: name.trim() };
  const msg = t("calendars.dates.bad", { line: at2 + 1 });
  throw new Problem(422, { title: msg, errors: [{ loc: ["dates"], msg }] });
}
var labelOf4 = (name) => DAYS.includes(name) ? dayText(name, "long") : t(`calendars.form.${name}`);
function CalendarEditor({ calendar, onClose, onDone }) {
  const form = useForm(calendar, valuesOf4);
  const { values: values2 } = form;
  const changes = useChanges(calendar?.name ?? "", values2, calendar !== null && form.changed.length > 0);
  const save = async (given, base) => {
    const name = calendar ? calendar.name : (given["name"] ?? "").trim();
    if (!name) {
      const msg = t("constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    await put(pathOfCalendar(name), calendarIn(given), {
      ...base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }
    });
    await onDone(name);
    return t("calendars.saved", { name: visible(name) });
  };
  return html`<${FormDialog}
      isWide title=${calendar ? `${t("calendars.edit")} · ${visible(calendar.name)}` : t("calendars.make")}
      form=${form} onClose=${onClose} onSave=${save} isNew=${!calendar}
      reread=${calendar ? () => get(pathOfCalendar(calendar.name)) : void 0} labelOf=${labelOf4}>
      <${SourceFields} form=${form} isNew=${!calendar} />
      <${Weekend} form=${form} />
      ${changes && html`<section class="preview" aria-live="polite"><h3>${t("calendars.changes")}</h3><${Changed} found=${changes} /></section>`}
    <//>`;
}
function SourceFields({ form, isNew }) {
  const source2 = form.values["source"];
  const field = (name, more = {}) => html`<${FormField} key=${name} form=${form} name=${name} path=${name} problem=${form.problem} label=${labelOf4(name)} ...${more} />`;
  const readFile = async (event) => {
    const file = event.target.files?.[0];
    if (file) form.set({ ical: await file.text() });
  };
  return html`<div class="form-grid">
      ${isNew && field("name", {
    hint: t("constraints.name.rule"),
    maxlength: "100",
    required: true,
    autocapitalize: "none",
    spellcheck: false
  })}
      ${field("source", {
    as: "select",
    children: SOURCES.map(
      (one) => html`<option key=${one} value=${one}>${t(`calendars.source.${one}`)}</option>`
    )
  })}
    </div>
    ${source2 === "country" && html`<div class="form-grid">${field("country", { hint: t("calendars.country.hint"), maxlength: "10", autocapitalize: "characters", spellcheck: false })}
      ${field("subdivision", { hint: t("calendars.subdivision.hint"), maxlength: "50", spellcheck: false })}
      ${field("language", { hint: t("calendars.language.hint"), maxlength: "20", spellcheck: false })}</div>`}
    ${source2 === "dates" && field("dates", { as: "textarea", rows: "10", hint: t("calendars.dates.hint"), spellcheck: false })}
    ${source2 === "ical" && html`<p><label>${t("calendars.ical.file")} <input type="file" accept=".ics,text/calendar" onChange=${readFile} /></label></p>
      ${field("ical", { as: "textarea", rows: "8", hint: t("calendars.ical.hint"), spellcheck: false })}`}`;
}
function Weekend({ form }) {
  return html`<${FormCheck} form=${form} name="own_weekend"><span>${labelOf4("own_weekend")}</span><//>
    ${form.values["own_weekend"] === "yes" && html`<fieldset class="plain-set">
          <legend>${t("calendars.weekend")}</legend>
          <div class="row">
            ${DAYS.map(
    (day) => html`<${FormCheck} key=${day} form=${form} name=${day}><span>${dayText(day)}</span><//>`
  )}
          </div>
        </fieldset>`}`;
}
function useChanges(name, values2, isAsked) {
  const [found, setFound] = E2(
    /** @type {Found | null} */
    null
  );
  const asked = isAsked ? JSON.stringify(values2) : "";
  W2(() => {
    if (!asked) {
      setFound(null);
      return void 0;
    }
    let isOver = false;
    const timer2 = setTimeout(async () => {
      try {
        const { changes } = await put(pathOfCalendar(name), { ...calendarIn(values2), dry_run: true });
        if (!isOver) setFound({ changes, problem: null });
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (!isOver) setFound({ changes: null, problem: error });
      }
    }, TYPING_MS7);
    return () => {
      isOver = true;
      clearTimeout(timer2);
    };
  }, [asked]);
  return found;
}
function Changed({ found }) {
  const { changes, problem } = found;
  if (problem) return html`<${ErrorBox} problem=${problem} />`;
  const lines2 = [
    ...(changes?.added ?? []).map((one) => [one.date, "+", one.name]),
    ...(changes?.removed ?? []).map((one) => [one.date, "−", one.name]),
    ...(changes?.renamed ?? []).map((one) => [one.date, "~", `${one.old_name} → ${one.name}`])
  ].sort();
  if (lines2.length === 0) return html`<p class="muted">${t("calendars.changes.none")}</p>`;
  const more = lines2.length - SHOWN3;
  return html`<ul class="holidays">
      ${lines2.slice(0, SHOWN3).map(
    ([date, sign, name]) => html`<li key=${`${date} ${sign}`}><span class="num">${sign} ${date}</span> ${visible(name ?? "")}</li>`
  )}
    </ul>
    ${more > 0 && html`<p class="muted">${t("calendars.changes.more", { count: more })}</p>`}`;
}

// calendars/year.js
var DAY_MS2 = 864e5;
var WEEK = 7;
var MONTHS = Array.from({ length: 12 }, (_, at2) => at2);
var isoDay = (year, month, day) => new Date(Date.UTC(year, month, day)).toISOString().slice(0, 10);
var holidayText = (day) => new Intl.DateTimeFormat(language(), {
  month: "long",
  day: "numeric",
  weekday: "short",
  timeZone: "UTC"
}).format(Date.parse(`${day}T00:00:00Z`));
var monthText = (year, month) => new Intl.DateTimeFormat(language(), {
  month: "long",
  timeZone: "UTC"
}).format(Date.UTC(year, month, 1));
function Year({ one, year }) {
  const prefix = `${String(year).padStart(4, "0")}-`;
  const holidays = one.holidays.filter((day) => day.date.startsWith(prefix));
  const names = new Map(holidays.map((day) => [day.date, day.name]));
  return html`<div
      class="calendar-year"
      role="group"
      aria-label=${t("calendars.year_of", { year: String(year) })}
    >
      ${MONTHS.map((month) => html`<${Month} key=${month} year=${year} month=${month} names=${names} weekend=${one.weekend} />`)}
    </div>
    <section class="card after" aria-labelledby="holidays">
      <h2 id="holidays">
        ${t("calendars.holidays_of", { year: String(year), count: number(holidays.length) })}
      </h2>
      ${holidays.length === 0 ? html`<p class="muted">${t("calendars.no_holidays")}</p>` : html`<ul class="holidays">
              ${holidays.map((day) => html`<li key=${day.date}><span class="num">${holidayText(day.date)}</span> ${visible(day.name)}</li>`)}
            </ul>`}
    </section>`;
}
function Month({ year, month, names, weekend }) {
  const start2 = new Date(Date.UTC(year, month, 1));
  const length = Math.round((Date.UTC(year, month + 1, 1) - start2.getTime()) / DAY_MS2);
  const before = (start2.getUTCDay() + WEEK - 1) % WEEK;
  const weeks = Array.from(
    { length: Math.ceil((before + length) / WEEK) },
    (_, week) => Array.from({ length: WEEK }, (__, at2) => week * WEEK + at2 - before + 1)
  );
  return html`<table class="month">
      <caption>
        ${monthText(year, month)}
      </caption>
      <thead>
        <tr>
          ${DAYS.map(
    (day) => html`<th key=${day} scope="col" class=${weekend.includes(day) ? "off" : ""}>${dayText(day)}</th>`
  )}
        </tr>
      </thead>
      <tbody>
        ${weeks.map(
    (days, week) => html`<tr key=${week}>
                ${days.map(
      (day, at2) => html`<${Day}
                        key=${at2} day=${day >= 1 && day <= length ? day : 0}
                        name=${names.get(isoDay(year, month, day))} isOff=${weekend.includes(DAYS[at2] ?? "")} />`
    )}
              </tr>`
  )}
      </tbody>
    </table>`;
}
function Day({ day, name, isOff }) {
  if (!day) return html`<td></td>`;
  const kind = name ? "holiday" : isOff ? "off" : "";
  return html`<td class=${kind} title=${name && visible(name)}>
    ${number(day)}${name && html`<span class="sr"> ${visible(name)}</span>`}
  </td>`;
}

// ui/named_list.js
var nameOf5 = (one) => one.name;
function NamedList({ page, session: session2, rows, found, columns: columns3, example, editor }) {
  const hold = useHold();
  const [isMaking, setMaking] = E2(false);
  const steady = useSteadyRows(rows ?? [], nameOf5, hold.isHeld, "");
  const open = (name) => go(page, { name });
  return html`<div class="page-head">
      <h1>${t(`nav.${page}`)}</h1>
      ${may(session2, "operate") && html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t(`${page}.make`)}<//>`}
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${Table}
              isFixed caption=${t(`nav.${page}`)} rows=${steady.rows} rowKey=${nameOf5} label=${nameOf5}
              onOpen=${(one) => open(one.name)}
              columns=${columns3.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<div class="card"><${Empty} title=${t(`${page}.empty`)} curl=${example} /></div>`} />
          </div>`}
    ${isMaking && editor(() => setMaking(false), open)}`;
}

// calendars/pages/calendars.js
var EXAMPLE4 = { country: "JP" };
var READ3 = { events: ["definitions"], leastMs: 2e3, everyMs: 15e3 };
var RENEW_MS = 60 * 864e5;
var FIRST_YEAR = 1970;
var LAST_YEAR = 9998;
function Page9({ query, session: session2 }) {
  return query["name"] ? html`<${One4}
        key=${query["name"]}
        name=${query["name"]}
        query=${query}
        session=${session2}
      />` : html`<${List5} session=${session2} />`;
}
var sourceText = (one) => one.country ? visible([one.country, one.subdivision].filter(Boolean).join("-")) : t(`calendars.source.${one.source}`);
var endsSoon = (one) => one.covers_until !== null && Date.parse(`${one.covers_until}T00:00:00Z`) - nowMs() < RENEW_MS;
function List5({ session: session2 }) {
  const found = useResource((signal) => get("api/calendars", {}, signal), [], READ3);
  return html`<${NamedList}
      page="calendars" session=${session2} found=${found} rows=${found.data?.calendars} columns=${COLUMNS3}
      example=${curl(session2, "PUT", "api/calendars/japan", { body: EXAMPLE4 })}
      editor=${(onClose, onDone) => html`<${CalendarEditor} calendar=${null} onClose=${onClose} onDone=${onDone} />`} />`;
}
var COLUMNS3 = [
  {
    key: "name",
    label: "calendars.name",
    phone: "main",
    render: (one) => html`<a
        href=${href("calendars", { name: one.name })}
        title=${visible(one.name)}
        >${visible(one.name)}</a
      >`
  },
  {
    key: "source",
    label: "calendars.source",
    phone: "line",
    render: (one) => sourceText(one)
  },
  {
    key: "weekend",
    label: "calendars.weekend",
    priority: 3,
    render: (one) => one.weekend.map((day) => dayText(day)).join(", ") || "–"
  },
  {
    key: "holidays",
    label: "calendars.holidays",
    align: "end",
    width: 7,
    priority: 2,
    render: (one) => html`<${Num} value=${one.holiday_count} />`
  },
  {
    key: "until",
    label: "calendars.covers_until",
    width: 11,
    phone: "side",
    render: (one) => html`<${Until} one=${one} />`
  },
  {
    key: "users",
    label: "calendars.used_by",
    align: "end",
    width: 7.5,
    priority: 2,
    render: (one) => html`<${Num} value=${one.used_by_count} />`
  }
];
function listedText(one) {
  const last = "holidays" in one ? one.holidays.at(-1) : null;
  return last ? t("calendars.last_listed", { day: last.date }) : t("calendars.listed");
}
function Until({ one }) {
  if (!one.covers_until) return html`<span class="muted">${listedText(one)}</span>`;
  return endsSoon(one) ? html`<${Badge} kind="warn">${one.covers_until}<//>` : html`<span class="num">${one.covers_until}</span>`;
}
function One4({ name, query, session: session2 }) {
  const path = pathOfCalendar(name);
  const [dialog, setDialog] = E2(
    /** @type {"edit" | "renew" | "delete" | null} */
    null
  );
  useTitle(name);
  const found = useResource((signal) => get(path, {}, signal), [name], READ3);
  const one = found.data;
  if (!one) return html`<${Absent} page="calendars" title=${t("calendars.unknown")} found=${found} />`;
  const close2 = () => setDialog(null);
  return html`<p class="crumbs">
      <a href=${href("calendars")}>${t("nav.calendars")}</a>
    </p>
    <div class="page-head job-head"><h1>${visible(one.name)}</h1></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${may(session2, "operate") && html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
        <${Button} opensDialog kind="primary" onClick=${() => setDialog("edit")}
          >${t("calendars.edit")}<//
        >
        ${one.source !== "dates" && html`<${Button} opensDialog onClick=${() => setDialog("renew")}>${t("calendars.renew")}<//>`}
        <${Button}
          opensDialog
          kind="danger"
          onClick=${() => setDialog("delete")}
          >${t("action.delete")}<//
        >
      </div>`}
    ${endsSoon(one) && html`<p class="warning" role="note">${t("calendars.ends_soon", { until: one.covers_until ?? "" })}</p>`}
    <${Facts4} one=${one} />
    <${Years} one=${one} asked=${query["year"]} />
    ${may(session2, "operate") && html`<${Changes} name=${one.name} etag=${one.etag ?? ""} />`}
    ${dialog === "edit" && html`<${CalendarEditor} calendar=${one} onClose=${close2} onDone=${found.reload} />`}
    ${dialog === "renew" && html`<${Renewal} one=${one} onClose=${close2} onDone=${found.reload} />`}
    ${dialog === "delete" && html`<${Deletion} one=${one} onClose=${close2} />`}`;
}
function Years({ one, asked }) {
  const given = Number(asked);
  const year = Number.isInteger(given) && given >= FIRST_YEAR && given <= LAST_YEAR ? given : new Date(nowMs()).getUTCFullYear();
  const turn = (by) => {
    const next = Math.min(LAST_YEAR, Math.max(FIRST_YEAR, year + by));
    go("calendars", { name: one.name, year: String(next) }, { replace: true });
  };
  return html`<div class="row year-turn">
      <${Button}
        onClick=${() => turn(-1)}
        aria-label=${t("calendars.year_before")}
        >←<//
      >
      <h2>${String(year)}</h2>
      <${Button}
        onClick=${() => turn(1)}
        aria-label=${t("calendars.year_after")}
        >→<//
      >
    </div>
    <${Year} one=${one} year=${year} />`;
}
function Facts4({ one }) {
  const weekend = one.weekend.map((day) => dayText(day, "long")).join(", ");
  const more = one.used_by_count - one.used_by.length;
  return html`<section class="card">
      <h2>${t("calendars.facts")}</h2>
      <dl class="facts">
        <dt>${t("calendars.source")}</dt>
        <dd>
          ${t(`calendars.source.${one.source}`)}${one.country && html` · ${sourceText(one)}`}
        </dd>
        <dt>${t("calendars.weekend")}</dt>
        <dd>${weekend || "–"}</dd>
        <dt>${t("calendars.holidays")}</dt>
        <dd>${number(one.holiday_count)}</dd>
        <dt>${t("calendars.covers_until")}</dt>
        <dd><${Until} one=${one} /></dd>
        <dt>${t("calendars.used_by")}</dt>
        <dd>
          ${one.used_by.length === 0 ? t("calendars.unused") : one.used_by.map(
    (user, at2) => html`${at2 > 0 && ", "}<a key=${user} href=${href("definitions", { name: user })}>${visible(user)}</a>`
  )}
          ${more > 0 && ` +${number(more)}`}
        </dd>
        <dt>${t("constraints.changed")}</dt>
        <dd><${Time} at=${one.changed_at} /></dd>
      </dl>
    </section>`;
}
var renewalOf = (one) => ({
  ...one.country ? {
    country: one.country,
    subdivision: one.subdivision,
    language: one.language
  } : { ical: one.ical },
  weekend: one.weekend
});
function Renewal({ one, onClose, onDone }) {
  const path = pathOfCalendar(one.name);
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const found = useResource(() => put(path, { ...renewalOf(one), dry_run: true }), [one.etag]);
  const renew = async () => {
    try {
      await put(path, renewalOf(one), { "If-Match": `"${one.etag}"` });
      toast(t("calendars.renewed", { name: visible(one.name) }));
      await onDone();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("calendars.renew")} onClose=${onClose}
    ><p>${t("calendars.renew.text")}</p>
    <${ErrorBox} problem=${problem ?? found.problem} />
    ${found.data ? html`<p>
              ${t("calendars.covers_until")}:
              <span class="num"
                >${found.data.covers_until ?? listedText(found.data)}</span
              >
            </p>
            <${Changed}
              found=${{ changes: found.data.changes, problem: null }}
            />` : !found.problem && html`<${Loading} />`}
    <footer>
      <${Button} autofocus onClick=${onClose}>${t("cancel")}<//
      ><${Button} kind="primary" disabled=${!found.data} onClick=${renew}
        >${t("calendars.renew")}<//
      >
    </footer><//
  >`;
}
function Deletion({ one, onClose }) {
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const act = async () => {
    try {
      await del(pathOfCalendar(one.name));
      toast(t("calendars.deleted", { name: visible(one.name) }));
      onClose();
      go("calendars");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("calendars.delete.title")} onClose=${onClose}
    ><p>${t("calendars.delete.text", { name: visible(one.name) })}</p>
    <${ErrorBox} problem=${problem} />
    <footer>
      <${Button} autofocus onClick=${onClose}>${t("cancel")}<//
      ><${Button} kind="danger" onClick=${act}>${t("action.delete")}<//>
    </footer><//
  >`;
}

// events/pages/events.js
var PAGE9 = 50;
var ANY = "*";
var FILTERS2 = ["type", "source", "definition"];
var MAX_STATES = 20;
var MAX_PAGES2 = 10;
var EXAMPLE5 = { event_type: "order.paid", payload: { order: 17, total: 99 }, dedupe_key: "order-17-paid" };
function Page10({ query, go: go3, session: session2 }) {
  return query["id"] ? html`<${OneEvent} key=${query["id"]} id=${query["id"]} session=${session2} />` : html`<${List6} query=${query} go=${go3} session=${session2} />`;
}
var idOf3 = (event) => event.event_id;
async function load2(query, signal) {
  const events = [];
  let cursor = query["cursor"] ?? null;
  for (let page = 0; page < MAX_PAGES2 && events.length < PAGE9; page += 1) {
    const found = await get("api/events", { ...query, cursor, limit: PAGE9 - events.length }, signal);
    events.push(...found.events);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { events, next_cursor: cursor };
}
function List6({ query, go: go3, session: session2 }) {
  const hold = useHold();
  const wanted = Object.fromEntries(FILTERS2.flatMap((key) => query[key] ? [[key, query[key]]] : []));
  const { like, send, close: close2 } = useSending(query["send"], () => go3("events", wanted, { replace: true }));
  const of2 = JSON.stringify([wanted, query["cursor"]]);
  const found = useResource(
    async (signal) => ({ ...await load2({ ...wanted, cursor: query["cursor"] }, signal), of: of2 }),
    [of2],
    {
      events: ["events"],
      leastMs: 1e3,
      everyMs: 5e3
    }
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.events ?? [],
    idOf3,
    hold.isHeld,
    found.data?.of ?? ""
  );
  const mayPush = may(session2, "push");
  const isFiltered = Object.keys(wanted).length > 0;
  const filter = (key, label, more = {}) => html`<${FilterInput}
        label=${label} value=${query[key] ?? ""}
        onChange=${(text) => go3("events", { ...wanted, [key]: text }, { replace: true })}
        ...${more} />`;
  return html`<div class="page-head">
      <h1>${t("nav.events")}</h1>${mayPush && html`<${Button} opensDialog class="small" kind="primary" onClick=${() => send(null)}>${t("events.send")}<//>`}
    </div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      ${filter("type", t("events.type"), { placeholder: "order.*" })}${filter("source", t("events.source"))}
      ${filter("definition", t("events.definition"))}
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${NewRows} count=${newCount} onShow=${showNew} />
            <${Table}
              isFixed caption=${t("nav.events")} rows=${rows} rowKey=${idOf3}
              label=${(event) => event.event_type}
              onOpen=${(event) => go3("events", { id: event.event_id })}
              columns=${COLUMNS4.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<${NoEvents} isFiltered=${isFiltered} session=${session2} />`} />
          </div>`}
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go3("events", { ...wanted, cursor: found.data?.next_cursor })}
      onFirst=${() => go3("events", wanted)} />
    ${like !== void 0 && html`<${SendEvent} like=${like} onClose=${close2} onDone=${found.reload} />`}`;
}
function useSending(asked, onOpen) {
  const [like, setLike] = E2(
    /** @type {import("../dialogs.js").Like | undefined} */
    void 0
  );
  W2(() => {
    if (!asked) return;
    onOpen();
    setLike(asked === ANY ? null : { event_type: asked });
  }, [asked]);
  return { like, send: setLike, close: () => setLike(void 0) };
}
function NoEvents({ isFiltered, session: session2 }) {
  return html`<div class="card">
      <${Empty}
        title=${t(isFiltered ? "events.empty.filtered" : "events.empty")}
        ...${!isFiltered && { curl: curl(session2, "POST", "api/events", { body: EXAMPLE5 }) }}>
        ${isFiltered && html`<p><a href=${href("events")}>${t("filter.clear")}</a></p>`}
      <//>
    </div>`;
}
var COLUMNS4 = [
  {
    key: "received",
    label: "events.received",
    width: 8,
    phone: "side",
    render: (event) => html`<${Time} at=${event.received_at} />`
  },
  {
    key: "type",
    label: "events.type",
    phone: "main",
    render: (event) => html`<a href=${href("events", { id: event.event_id })} title=${visible(event.event_type)}>${visible(event.event_type)}</a>`
  },
  {
    key: "about",
    label: "events.source",
    priority: 3,
    render: (event) => {
      const text = visible([event.source, event.subject].filter(Boolean).join(" · "));
      return text ? html`<span title=${text}>${text}</span>` : html`<${Num} value=${null} />`;
    }
  },
  {
    key: "payload",
    label: "events.payload",
    priority: 2,
    render: (event) => html`<${Excerpt} value=${event.payload} isHidden=${event.payload_hidden} />`
  },
  {
    key: "started",
    label: "events.started",
    phone: "line",
    render: (event) => html`<${Effects} runs=${event.runs} />`
  }
];
function Effects({ runs }) {
  const [first] = runs;
  if (!first) return html`<span class="muted">${t("events.started.nothing")}</span>`;
  return html`<${Outcome} run=${{ ...first, reason: null }} /> <a
      href=${href("definitions", { name: first.definition })} title=${visible(first.definition)}>
      ${visible(first.definition)}
    </a>
    ${runs.length > 1 && html` <span class="muted">${t("events.started.more", { count: runs.length - 1 })}</span>`}`;
}
var stateOf = (id, signal) => get(`api/jobs/${encodeURIComponent(id)}`, {}, signal).then(
  (job) => job.state,
  (error) => {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
);
function OneEvent({ id, session: session2 }) {
  const [dialog, setDialog] = E2("");
  const path = (
    /** @type {const} */
    `api/events/${encodeURIComponent(id)}`
  );
  const found = useResource(
    async (signal) => {
      const event2 = await get(path, {}, signal);
      const ids = event2.runs.flatMap((run) => run.job_id ?? []).slice(0, MAX_STATES);
      const states2 = await Promise.all(ids.map((job) => stateOf(job, signal)));
      return { event: event2, states: new Map(ids.map((job, at2) => [job, states2[at2]])) };
    },
    [id],
    { events: ["jobs"], leastMs: 2e3, everyMs: 5e3 }
  );
  useTitle(found.data?.event.event_type ?? null);
  if (!found.data)
    return html`<${Absent} page="events" title=${t("events.unknown")} found=${found}>
      <p>${t("events.unknown.text")}</p><//>`;
  const { event, states } = found.data;
  const isWhole = !event.payload_hidden && !event.payload_redacted && !isCut(event);
  const body = () => ({
    event_type: event.event_type,
    payload: event.payload,
    source: event.source,
    subject: event.subject
  });
  return html`<p class="crumbs">
      <a href=${href("events")}>${t("nav.events")}</a> / <a
        href=${href("events", { type: event.event_type })}>
        ${visible(event.event_type)}
      </a>
    </p>
    <div class="page-head job-head"><h1><${Text} value=${event.event_type} max=${200} /></h1></div>
    <div class="row job-id">
      <code class="id">${visible(event.event_id)}</code> <${CopyMenu}>
        <${Copy} text=${event.event_id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(event, 2)} label=${t("copy.json")} />
        ${isWhole && html` <${Copy} text=${() => curl(session2, "POST", "api/events", { body: body() })} label=${t("copy.curl")} />`}
      <//>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div class="row actions" role="group" aria-label=${t("job.actions")}>
      ${may(session2, "operate") && html`<${Button} opensDialog kind="primary" onClick=${() => setDialog("replay")}>${t("events.replay")}<//>`}
      ${may(session2, "push") && isWhole && html`<${Button} opensDialog onClick=${() => setDialog("send")}>${t("events.send_like")}<//>`}
    </div>
    <div class="job-grid">
      <div class="stack"><${Facts5} event=${event} /><${Effect} event=${event} states=${states} /></div>
      <${Payload} event=${event} />
    </div>
    ${dialog === "replay" && html`<${ReplayEvent} event=${event} onClose=${() => setDialog("")} />`}
    ${dialog === "send" && html`<${SendEvent} like=${event} onClose=${() => setDialog("")} />`}`;
}
var isCut = (event) => event.payload === null && event.payload_bytes > 1;
function Facts5({ event }) {
  return html`<section class="card">
      <h2>${t("events.facts")}</h2>
      <dl class="facts">
        <dt>${t("events.received")}</dt><dd><${Time} at=${event.received_at} /></dd>
        ${event.occurred_at && html`<dt>${t("events.occurred_at")}</dt><dd><${Time} at=${event.occurred_at} /></dd>`}
        ${event.source && html`<dt>${t("events.source")}</dt><dd><a href=${href("events", { source: event.source })}><${Text} value=${event.source} max=${200} /></a></dd>`}
        ${event.subject && html`<dt>${t("events.subject")}</dt><dd><${Text} value=${event.subject} max=${200} /></dd>`}
        ${event.dedupe_key && html`<dt>${t("events.dedupe_key")}</dt><dd><${Text} value=${event.dedupe_key} max=${200} /></dd>`}
        ${event.replay_of && html`<dt>${t("events.replay_of")}</dt><dd><${Id} id=${event.replay_of} href=${href("events", { id: event.replay_of })} /></dd>`}
      </dl>
    </section>`;
}
function Effect({ event, states }) {
  const count = event.job_ids.length;
  return html`<section class="card">
      <h2>${t("events.started")} <span class="muted num">${number(count)}</span></h2>${event.runs.length === 0 ? html`<p class="muted">${t("events.started.none")}</p>` : html`<ul class="plain effects">
              ${event.runs.map(
    (run) => html`<li key=${run.definition}>
                      <a href=${href("definitions", { name: run.definition })}>
                        ${visible(run.definition)}
                      </a> <${Outcome} run=${run} />
                      ${run.job_id && html` <${Id} id=${run.job_id} href=${href("job", { id: run.job_id })} /> <${JobState} run=${run} state=${states.get(run.job_id)} />`}
                    </li>`
  )}
            </ul>`}
    </section>`;
}
function JobState({ run, state }) {
  if (state === void 0) return null;
  if (state) return html`<${State} state=${state} />`;
  return html`<span class="muted">${t(run.outcome === "waiting" ? "events.job_later" : "definitions.job_gone")}</span>`;
}
function Payload({ event }) {
  return html`<section class="card"><h2>${t("events.payload")} <span class="muted small"><${Bytes} value=${event.payload_bytes} /></span></h2>${event.payload_hidden ? html`<p class="muted">${t("job.hidden")}</p>` : isCut(event) ? html`<p class="muted">${t("job.too_large", { size: bytesText(event.payload_bytes) })}</p>` : html`${event.payload_redacted && html`<p class="muted">${t("job.redacted")}</p>`}<${Value} value=${event.payload} label=${t("events.payload")} />`}</section>`;
}

// workers/drains.js
var MAX_ASKED3 = 10;
var POLL_MS6 = 2e3;
var resumeAll = (selection, onDone) => attempt(async () => {
  const answer = await post("api/workers/resume", selection);
  toast(t("workers.resumed.set", { count: answer.count }));
}, "").then(onDone);
function DrainDialog({ selection, what, onClose, onDone }) {
  const [dry, setDry] = E2(
    /** @type {WorkerSetAnswer | null} */
    null
  );
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  W2(() => {
    let isOver = false;
    post("api/workers/drain", { ...selection, dry_run: true }).then(
      (answer) => {
        if (!isOver) setDry(answer);
      },
      (error) => {
        if (!isOver) setProblem(error instanceof Problem ? error : new Problem(0, {}));
      }
    );
    return () => {
      isOver = true;
    };
  }, []);
  const title2 = t("workers.drain.title");
  if (!dry)
    return html`<${Dialog} title=${title2} onClose=${onClose}>
        <${ErrorBox} problem=${problem} />${!problem && html`<p role="status">${t("action.counting")}</p>`}
        <footer><${Button} onClick=${onClose}>${t("cancel")}<//></footer>
      <//>`;
  return html`<${ConfirmCount}
      title=${title2} count=${dry.count} counted=${t("workers.drain.count", { count: dry.count })}
      verb=${t("workers.drain")} kind="primary" onClose=${onClose} onConfirm=${async () => {
    const done = await post("api/workers/drain", { worker_ids: dry.worker_ids });
    const undo = () => resumeAll({ worker_ids: done.worker_ids }, onDone);
    toast(t("workers.drain.begun", { count: done.count }), "ok", done.count > 0 ? undo : void 0);
    await onDone();
  }}>
      <p><strong><${Text} value=${what} max=${120} /></strong></p>
      <p>${t("workers.drain.jobs", { count: dry.jobs })} ${t("workers.drain.text")}</p>
    <//>`;
}
function DrainCountdown({ workers, mayOperate, onDone }) {
  useTick();
  const draining = workers.filter((worker) => worker.state === "draining");
  const busy = draining.filter((worker) => worker.busy > 0);
  const asked = busy.map((worker) => worker.id).sort().slice(0, MAX_ASKED3);
  const { data } = useResource(
    (signal) => Promise.all(asked.map((id) => get(`api/workers/${encodeURIComponent(id)}`, {}, signal))),
    [asked.join()],
    { events: ["workers"], leastMs: POLL_MS6, pollMs: POLL_MS6 }
  );
  if (draining.length === 0) return null;
  const left = busy.reduce((sum2, worker) => sum2 + worker.busy, 0);
  const starts = (data ?? []).flatMap((worker) => worker.jobs).map((job) => Date.parse(job.started_at));
  const longest = left > 0 && starts.length > 0 ? Math.max(0, nowMs() - Math.min(...starts)) : null;
  const idle = draining.length - busy.length;
  return html`<section class="card drains" aria-label=${t("workers.drains")}>
      <div class="row" role="status">
        <${Badge} kind=${left > 0 ? "info" : "ok"}>
          ${t("workers.drains.count", { count: draining.length })}
        <//>
        <strong class="num">
          ${left > 0 ? t("workers.drains.left", { count: left }) : t("workers.drains.done")}
        </strong>
        ${longest !== null && html`<span class="muted">${t("workers.drains.longest")} <${Duration} ms=${longest} /></span>`}
        <${Bar} value=${idle} of=${draining.length} label=${t("workers.drains.bar")} kind="ok" />
      </div>
      ${mayOperate && html`<${Button}
            class="small"
            onClick=${() => resumeAll({ worker_ids: draining.map((worker) => worker.id) }, onDone)}>
            ${t("workers.resume.set", { count: draining.length })}
          <//>`}
    </section>`;
}

// workers/slots.js
function SlotsDialog({ worker, what, onClose, onDone }) {
  const form = useForm(null, () => ({ max_jobs: String(worker.max_jobs), keep: "" }));
  const path = (
    /** @type {const} */
    `api/workers/${encodeURIComponent(worker.id)}/slots`
  );
  const set = async (maxJobs, keep = false) => {
    const answer = await post(path, { max_jobs: maxJobs, keep });
    await onDone();
    return answer.max_jobs;
  };
  const save = async ({ max_jobs, keep }) => {
    const before = worker.max_jobs;
    const now = await set(Number(max_jobs), Boolean(keep));
    const undo = () => attempt(() => set(before), t("workers.slots.set", { count: before }));
    return keep ? t("workers.slots.kept", { count: now }) : { text: t("workers.slots.set", { count: now }), undo };
  };
  return html`<${FormDialog} title=${t("workers.slots.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("workers.slots.save")}>
    <p><strong><${Text} value=${what} max=${120} /></strong></p><p class="muted">${t("workers.slots.text", { own: worker.own_max_jobs ?? worker.max_jobs })}</p>
    <${FormField} form=${form} name="max_jobs" type="number" min="1" max="1000" required label=${t("workers.slots")} />
    <${FormCheck} form=${form} name="keep">${t("workers.slots.keep")}<//><//>`;
}
function SlotRules({ mayOperate }) {
  const { data, problem, reload } = useResource((signal) => get("api/slot-rules", {}, signal), [], {
    events: ["workers"],
    leastMs: 1e3,
    pollMs: 1e4
  });
  const rules = data?.slot_rules ?? [];
  if (rules.length === 0) return html`<${ErrorBox} problem=${problem} onRetry=${reload} />`;
  const remove = (rule) => attempt(() => del(`api/slot-rules/${encodeURIComponent(rule.id)}`), t("workers.slots.rule.removed")).then(
    reload
  );
  return html`<section class="after">
      <h2>${t("workers.slots.rules")}</h2>
      <p class="muted">${t("workers.slots.rules.text")}</p>
      <${ErrorBox} problem=${problem} onRetry=${reload} />
      <${Table}
        caption=${t("workers.slots.rules")} rows=${rules} rowKey=${(rule) => rule.id}
        columns=${ruleColumns(mayOperate ? remove : null)} />
    </section>`;
}
function ruleColumns(onRemove) {
  const labels = (rule) => Object.entries(rule.labels).map(([key, value]) => `${key}=${value}`).join(", ");
  const columns3 = [
    {
      key: "node",
      label: t("workers.host"),
      render: (rule) => html`<${Text} value=${rule.node_id || "–"} max=${60} />`
    },
    {
      key: "labels",
      label: t("workers.labels"),
      render: (rule) => html`<${Text} value=${labels(rule) || "–"} max=${80} />`
    },
    {
      key: "slots",
      label: t("workers.slots"),
      align: "end",
      render: (rule) => html`<${Num} value=${rule.max_jobs} />`
    },
    {
      key: "by",
      label: t("workers.slots.by"),
      priority: 3,
      render: (rule) => html`<${Text} value=${rule.set_by} max=${40} />`
    },
    {
      key: "at",
      label: t("workers.slots.at"),
      align: "end",
      priority: 3,
      render: (rule) => html`<${Time} at=${rule.set_at} />`
    }
  ];
  if (onRemove)
    columns3.push({
      key: "act",
      label: t("job.actions"),
      render: (rule) => html`<${Button}
            class="small" aria-label=${`${t("workers.slots.rule.remove")}: ${rule.node_id}`}
            onClick=${() => onRemove(rule)}>
            ${t("workers.slots.rule.remove")}
          <//>`
    });
  return columns3;
}

// workers/groups.js
var groupValue = (group) => group.label === null ? group.value : `${group.label}=${group.value}`;
function selectionOf(by, group) {
  if (by === "label") return { label: { name: group.label ?? "", value: group.value } };
  return by === "node" ? { node_id: group.value } : { version: group.value };
}
function Groups({ by, query, go: go3, onDrain }) {
  const { data, problem, reload } = useResource((signal) => get("api/workers/groups", { by }, signal), [by], {
    events: ["workers"],
    leastMs: 1e3,
    pollMs: POLL_MS5
  });
  const sort = query["sort"] ?? "";
  const address = (group) => ({ [by]: groupValue(group) });
  const rows = sortedByFigures(data?.groups ?? [], sort);
  return html`<${ErrorBox} problem=${problem} onRetry=${reload} />${data === null ? !problem && html`<${Loading} />` : html`<${Table}
          caption=${t(`workers.group.${by}`)} rows=${rows} rowKey=${groupValue}
          onOpen=${(group) => go3("workers", address(group))} sort=${sort}
          onSort=${(next) => go3(
    "workers",
    { ...query, sort: next === sort ? "" : next },
    { replace: true }
  )} empty=${html`<${Empty} title=${t("workers.groups.none")} />`} columns=${[
    {
      key: "value",
      label: t(`workers.group.${by}`),
      phone: "main",
      render: (group) => html`<a href=${href("workers", address(group))}>
                    <${Text} value=${groupValue(group)} max=${80} />
                  </a>
                  <span class="narrow-only"><${Marks} figures=${group.figures} /></span>`
    },
    {
      key: "states",
      label: t("nav.workers"),
      phone: "line",
      render: (group) => html`${ORDER.filter((state) => group.workers[state] > 0).map(
        (state) => html`<${Badge} kind=${KINDS3[state]}>${number(group.workers[state])} ${t(`worker.${state}`)}<//> `
      )}`
    },
    {
      key: "slots",
      label: t("workers.slots"),
      align: "end",
      priority: 2,
      render: (group) => html`<${Slots} worker=${group} />`
    },
    ...figureColumns(),
    ...onDrain ? [
      {
        key: "act",
        label: t("job.actions"),
        phone: (
          /** @type {const} */
          "side"
        ),
        render: (group) => group.workers.fresh + group.workers.stale > 0 && html`<${Button}
                          opensDialog class="small"
                          aria-label=${`${t("workers.drain")}: ${visible(groupValue(group))}`}
                          onClick=${() => onDrain(selectionOf(by, group), groupValue(group))}>
                          ${t("workers.drain")}
                        <//>`
      }
    ] : []
  ]} />`}`;
}

// workers/one.js
function One5({ id, session: session2 }) {
  const path = (
    /** @type {const} */
    `api/workers/${encodeURIComponent(id)}`
  );
  const {
    data: worker,
    problem,
    reload
  } = useResource((signal) => get(path, {}, signal), [id], {
    events: ["workers", "jobs"],
    leastMs: 1e3,
    pollMs: POLL_MS5
  });
  const [asked, setAsked] = E2(
    /** @type {"slots" | "detach" | null} */
    null
  );
  useTitle(worker && `${nameOf(worker)} · ${t("workers.one")}`);
  const back = html`<p class="crumbs"><a href=${href("workers")}>${t("nav.workers")}</a></p>`;
  if (worker === null) {
    return html`${back}<h1>${t("workers.one")}</h1>
      ${problem?.status === 404 ? html`<${Empty} title=${t("workers.unknown")}>${t("workers.unknown.text")}<//>` : html`<${ErrorBox} problem=${problem} onRetry=${reload} />`}
      ${!problem && html`<${Loading} />`}`;
  }
  const mayOperate = may(session2, "operate");
  const act = async (what) => {
    await post(`${path}/${what}`);
    await reload();
  };
  return html`${back}
    <div class="page-head job-head">
      <h1>
        <${Text} value=${worker.node_id || t("workers.one")} max=${60} />
        ${worker.pid && html` <span class="muted num">${t("master.pid", { pid: String(worker.pid) })}</span>`}
      </h1>
      <${WorkerState} worker=${worker} />
    </div>
    <p class="job-id"><code>${visible(worker.id)}</code></p>
    <${ErrorBox} problem=${problem} />
    ${mayOperate && html`<${Actions6} worker=${worker} act=${act} onAsk=${setAsked} />`}
    <div class="job-grid">
      <${Facts6} worker=${worker} />
      <${FigureFacts} figures=${worker.figures} />
      <section class="card">
        <h2>${t("nav.names")} <span class="muted num">${number(worker.names.length)}</span></h2>
        <p>
          ${worker.names.slice(0, 100).map(
    (name) => html`<a class="chip" href=${href("jobs", { name })}><${Text} value=${name} max=${80} /></a> `
  )}
        </p>
      </section>
    </div>
    <section class="after" aria-labelledby="held">
      <h2 id="held">${t("workers.jobs")} <span class="muted num">${number(worker.jobs.length)}</span></h2>
      <${Table}
        caption=${t("workers.jobs")} rows=${worker.jobs} rowKey=${(job) => job.job_id}
        empty=${html`<${Empty} title=${t("workers.idle")} />`}
        columns=${JOB_COLUMNS.map((column) => ({ ...column, label: t(column.label) }))} />
    </section>
    ${asked === "slots" && html`<${SlotsDialog} worker=${worker} what=${nameOf(worker)} onClose=${() => setAsked(null)} onDone=${reload} />`}
    ${asked === "detach" && html`<${Detach} worker=${worker} onConfirm=${() => act("detach")} onClose=${() => setAsked(null)} />`}`;
}
function Actions6({ worker, act, onAsk }) {
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
        ${worker.state === "draining" ? html`<${Button} kind="primary" onClick=${() => attempt(() => act("resume"), t("workers.resumed"))}>${t("workers.resume")}<//>` : worker.state !== "detached" && html`<${Button} onClick=${() => attempt(() => act("drain"), t("workers.drained"))}>${t("workers.drain")}<//>`}
        ${worker.state !== "detached" && html`<${Button} opensDialog onClick=${() => onAsk("slots")}>${t("workers.slots.change")}<//>`}
        ${worker.state !== "detached" && html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("detach")}>${t("workers.detach")}<//>`}</div>`;
}
function Facts6({ worker }) {
  return html`<section class="card">
        <h2>${t("job.facts")}</h2>
        <dl class="facts">
          <dt>${t("workers.slots")}</dt>
          <dd>
            <${Slots} worker=${worker} />
            ${worker.own_max_jobs !== void 0 && worker.own_max_jobs !== worker.max_jobs && html` <span class="muted">${t("workers.slots.own", { count: worker.own_max_jobs })}</span>`}
          </dd>
          <dt>${t("workers.seen")}</dt><dd><${Time} at=${worker.last_seen_at} /></dd>
          <dt>${t("workers.registered")}</dt><dd><${Time} at=${worker.registered_at} /></dd>
          <dt>${t("workers.breaker")}</dt><dd><${Breaker} breaker=${worker.breaker} /></dd>
          <dt>${t("workers.role")}</dt><dd>${tOr(`workers.role.${worker.role}`, visible(worker.role))}</dd>
          <dt>${t("workers.address")}</dt><dd>${worker.url ? html`<${Text} value=${worker.url} />` : "–"}</dd>
          <dt>${t("workers.host")}</dt>
          <dd>
            <${Text} value=${worker.node_id || "–"} /> ${worker.pid > 0 && html`<span class="muted">${t("master.pid", { pid: String(worker.pid) })}</span>`}
          </dd>
          <dt>${t("workers.version")}</dt><dd><${Text} value=${worker.version || "–"} /></dd>
          ${Object.entries(worker.labels).map(
    ([key, value]) => html`<dt><${Text} value=${key} max=${64} /></dt><dd><${Text} value=${value} max=${200} /></dd>`
  )}
        </dl>
      </section>`;
}
var JOB_COLUMNS = [
  {
    key: "name",
    label: "job.name",
    render: (job) => html`<a href=${href("job", { id: job.job_id })}><${Text} value=${job.name} max=${80} /></a>`
  },
  {
    key: "id",
    label: "job.id",
    render: (job) => html`<${Id} id=${job.job_id} href=${href("job", { id: job.job_id })} />`
  },
  {
    key: "attempt",
    label: "job.attempt",
    align: "end",
    priority: 2,
    render: (job) => html`<${Num} value=${job.attempt} />`
  },
  {
    key: "since",
    label: "job.since",
    align: "end",
    render: (job) => html`<${Time} at=${job.started_at} />`
  }
];
function Detach({ worker, onConfirm, onClose }) {
  return html`<${ConfirmCount}
      title=${t("workers.detach.title")} count=${worker.jobs.length} isAlways verb=${t("workers.detach")}
      onConfirm=${onConfirm} onClose=${onClose}>
      <p>${t("workers.detach.text")}</p>
    <//>`;
}

// workers/pages/workers.js
var STATES3 = ["fresh", "stale", "draining", "detached"];
function Page11({ query, go: go3, session: session2 }) {
  const id = query["id"];
  return id ? html`<${One5} id=${id} session=${session2} />` : html`<${All} query=${query} go=${go3} session=${session2} />`;
}
var FILTERS3 = {
  name: { label: "job.name", of: (worker, value) => worker.names.includes(value) },
  node: { label: "workers.host", of: (worker, value) => worker.node_id === value },
  version: { label: "workers.version", of: (worker, value) => worker.version === value },
  label: {
    label: "workers.label",
    of: (worker, value) => Object.entries(worker.labels).some(([key, text]) => `${key}=${text}` === value)
  }
};
var GROUPS = ["node", "version", "label"];
function GroupBy({ query }) {
  const current = GROUPS.includes(query["by"] ?? "") ? query["by"] : "";
  return html`<nav class="row group-by" aria-label=${t("workers.group_by")}>
      <span class="muted">${t("workers.group_by")}</span>
      ${["", ...GROUPS].map(
    (by) => html`<a
              class="chip-link" href=${href("workers", { by })}
              aria-current=${by === current ? "page" : void 0}>
              ${t(`workers.group.${by || "worker"}`)}
            </a>`
  )}
    </nav>`;
}
function All({ query, go: go3, session: session2 }) {
  const by = query["by"] ?? "";
  const mayOperate = may(session2, "operate");
  const [asked, setAsked] = E2(
    /** @type {{selection: import("../drains.js").Selection, what: string} | null} */
    null
  );
  const [resized, setResized] = E2(
    /** @type {WorkerView | null} */
    null
  );
  const list = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 1e3,
    pollMs: POLL_MS5
  });
  const onDrain = mayOperate ? (selection, what) => setAsked({ selection, what }) : null;
  return html`<div class="page-head"><h1>${t("nav.workers")}</h1></div>
    <${DrainCountdown} workers=${list.data?.workers ?? []} mayOperate=${mayOperate} onDone=${list.reload} />
    <${GroupBy} query=${query} />
    ${GROUPS.includes(by) ? html`<${Groups} key=${by} by=${by} query=${query} go=${go3} onDrain=${onDrain} />` : html`<${List7} list=${list} query=${query} go=${go3} onDrain=${onDrain} onSlots=${mayOperate ? setResized : null} />`}
    <p class="muted after">
      ${t("workers.figures.text")} ${t("workers.mark.slow.rule")} ${t("workers.mark.failing.rule")}
    </p>
    <${SlotRules} mayOperate=${mayOperate} />
    ${asked && html`<${DrainDialog} ...${asked} onClose=${() => setAsked(null)} onDone=${list.reload} />`}
    ${resized && html`<${SlotsDialog} worker=${resized} what=${nameOf(resized)} onClose=${() => setResized(null)} onDone=${list.reload} />`}`;
}
var ownOf = (answer) => (answer?.workers ?? []).filter((worker) => !worker.built_in);
function List7({ list: { data, problem, reload }, query, go: go3, onDrain, onSlots }) {
  const hold = useHold();
  const [selected, setSelected] = E2(
    /** @type {Set<string>} */
    /* @__PURE__ */ new Set()
  );
  const state = STATES3.find((one) => one === query["state"]) ?? "";
  const sort = query["sort"] ?? "";
  const filters = Object.fromEntries(Object.entries(query).filter(([key, value]) => key in FILTERS3 && value));
  const all = ownOf(data);
  const chosen = all.filter(
    (worker) => Object.entries(filters).every(([key, value]) => FILTERS3[key]?.of(worker, value))
  );
  const wanted = sortedByFigures(
    chosen.filter((worker) => !state || worker.state === state).sort(byState),
    sort
  );
  const steady = useSteadyRows(
    wanted,
    (worker) => worker.id,
    hold.isHeld,
    JSON.stringify([state, filters, sort, data === null])
  );
  const isFiltered = Object.keys(filters).length > 0;
  const onSort = (next) => go3("workers", { ...query, sort: next === sort ? "" : next }, { replace: true });
  return html`${isFiltered && html`<${Chips2} filters=${filters} state=${state} />`}
    <${Tabs} label=${t("nav.workers")} tabs=${tabsOf2(chosen, filters)} current=${state} />
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${onDrain && data !== null && html`<${DrainChosen}
          chosen=${wanted.filter((worker) => selected.has(worker.id))}
          all=${isFiltered ? wanted : []} filters=${filters} onDrain=${onDrain} />`}
    ${data === null ? !problem && html`<${Loading} />` : html`<div ...${hold.bind}>
            <${NewRows} count=${steady.newCount} onShow=${steady.showNew} />
            <${Table}
              isFixed caption=${t("nav.workers")} rows=${steady.rows}
              rowKey=${(worker) => worker.id} label=${nameOf} selected=${selected}
              onSelect=${onDrain ? setSelected : void 0}
              onOpen=${(worker) => go3("workers", { id: worker.id })} sort=${sort}
              onSort=${onSort} empty=${html`<${NoWorkers} isFiltered=${all.length > 0} />`}
              columns=${columnsOf5(onSlots)} />
          </div>`}`;
}
var byState = (a2, b2) => ORDER.indexOf(a2.state) - ORDER.indexOf(b2.state) || a2.node_id.localeCompare(b2.node_id) || a2.id.localeCompare(b2.id);
var tabsOf2 = (workers, filters) => ["", ...STATES3].map((one) => ({
  key: one,
  label: one ? t(`worker.${one}`) : t("jobs.all"),
  href: href("workers", { ...filters, state: one }),
  count: workers.filter((worker) => !one || worker.state === one).length,
  ...["stale", "detached"].includes(one) && workers.some((worker) => worker.state === one) && { kind: "bad" }
}));
function Chips2({ filters, state }) {
  return html`<p class="chips">
      ${Object.entries(filters).map(
    ([key, value]) => html`<span class="chip" key=${key}>
              ${t(FILTERS3[key]?.label ?? key)}
              : <${Text} value=${value} max=${80} /> <a
                href=${href("workers", { ...filters, state, [key]: "" })}
                aria-label=${t("filter.remove", { name: t(FILTERS3[key]?.label ?? key) })}>
                ✕
              </a>
            </span>`
  )}
    </p>`;
}
function NoWorkers({ isFiltered }) {
  return html`<${Empty}
      title=${isFiltered ? t("workers.none_such") : t("workers.none")}
      curl=${isFiltered ? void 0 : "jqmaster worker tasks:worker"}>
      ${isFiltered ? html`<a href=${href("workers")}>${t("filter.clear")}</a>` : t("workers.none.text")}
    <//>`;
}
var columnsOf5 = (onSlots) => [
  {
    key: "state",
    label: t("job.state"),
    width: 11,
    phone: "line",
    render: (worker) => html`<${RowState} worker=${worker} />`
  },
  {
    key: "host",
    label: t("workers.host"),
    phone: "main",
    render: (worker) => html`<a
          href=${href("workers", { id: worker.id })} title=${visible(`${nameOf(worker)}
${worker.id}`)}>
          ${visible(nameOf(worker))}
        </a>
        <span class="narrow-only"><${Marks} figures=${worker.figures} /></span>`
  },
  {
    key: "slots",
    label: t("workers.slots"),
    align: "end",
    width: 7.2,
    priority: 2,
    phone: "line",
    render: (worker) => html`<${Slots} worker=${worker} />`
  },
  ...figureColumns().filter(({ key }) => key !== "marks"),
  {
    key: "seen",
    label: t("workers.seen"),
    align: "end",
    width: 7.4,
    priority: 2,
    phone: "side",
    render: (worker) => html`<${Time} at=${worker.last_seen_at} />`
  },
  {
    key: "version",
    label: t("workers.version"),
    width: 5.5,
    priority: 4,
    render: (worker) => html`<span title=${visible(worker.version)}>${visible(worker.version) || "–"}</span>`
  },
  {
    key: "breaker",
    label: t("workers.breaker"),
    width: 6,
    priority: 5,
    render: (worker) => html`<${Breaker} breaker=${worker.breaker} />`
  },
  {
    key: "names",
    label: t("nav.names"),
    priority: 3,
    render: (worker) => html`<span title=${visible(worker.names.join("\n"))}>${visible(worker.names.join(", "))}</span>`
  },
  ...onSlots ? [slotsColumn(onSlots)] : []
];
var slotsColumn = (onSlots) => ({
  key: "act",
  label: html`<span class="sr">${t("job.actions")}</span>`,
  width: 2.6,
  priority: 2,
  render: (worker) => {
    const label = `${t("workers.slots.change")}: ${nameOf(worker)}`;
    return worker.state !== "detached" && html`<button
          type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${label}
          title=${label} onClick=${() => onSlots(worker)}>
          <${Icon} name="settings" />
        </button>`;
  }
});
var live = (workers) => workers.filter((worker) => worker.state === "fresh" || worker.state === "stale");
function DrainChosen({ chosen, all, filters, onDrain }) {
  const workers = live(chosen.length > 0 ? chosen : all);
  if (workers.length === 0) return null;
  const what = chosen.length > 0 ? workers.map(nameOf).join(", ") : Object.entries(filters).map(([key, value]) => `${t(FILTERS3[key]?.label ?? key)}: ${value}`).join(", ");
  return html`<p class="row">
      <${Button}
        opensDialog onClick=${() => onDrain({ worker_ids: workers.map((worker) => worker.id) }, what)}>
        ${t("workers.drain.set", { count: workers.length })}
      <//>
    </p>`;
}

// operations/pages/masters.js
var POLL_MS7 = 2e3;
var NEWEST = 500;
var CHANGES = ["master.demote", "master.take_over"];
function Page12({ session: session2 }) {
  const { data, problem, reload } = useResource((signal) => get("api/masters", {}, signal), [], {
    events: ["masters"],
    leastMs: 1e3,
    pollMs: POLL_MS7
  });
  const stats = useResource((signal) => get("api/stats", {}, signal), [], { everyMs: 1e4 });
  const { findings } = useHealth();
  const [leaving, setLeaving] = E2(
    /** @type {Master | null} */
    null
  );
  const masters = data?.masters ?? [];
  const leader = masters.find((master) => master.role === "leader");
  const mayOperate = may(session2, "operate");
  return html`<div class="page-head">
      <h1>${t("nav.masters")}</h1>
      ${data && html`<span class="muted">${t("masters.epoch")} <code class="num">${String(data.epoch)}</code></span>`}
    </div>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${data === null ? !problem && html`<${Loading} />` : html`${!leader && html`<p class="fault bad" role="alert">
                <${Badge} kind="bad">${t("fault.bad")}<//>
                <span class="fault-text">${t("health.no_leader")}</span><${RunbookLink} code="no_leader" />
              </p>`}
          <${Table}
            caption=${t("nav.masters")} rows=${masters} rowKey=${(master) => master.id}
            columns=${columnsOf6(mayOperate ? setLeaving : null)} />
          <p class="muted after">${t("masters.text")}</p>
          ${stats.data && html`<div class="cards after"><${Store} store=${stats.data.store} findings=${findings} /></div>`}
          ${mayOperate && html`<${Leaders} epoch=${data.epoch} />`}`}
    ${leaving && html`<${Demote}
          master=${leaving}
          others=${masters.filter((master) => master.id !== leaving.id && master.state === "fresh").length}
          onClose=${() => setLeaving(null)} onDone=${reload} />`}`;
}
function columnsOf6(onDemote) {
  const columns3 = [
    {
      key: "role",
      label: t("masters.role"),
      render: ({ role }) => html`<${Badge} kind=${role === "leader" ? "ok" : role === "sub_leader" ? "info" : "off"}>
            ${tOr(`master.${role}`, visible(role))}
          <//>`
    },
    {
      key: "state",
      label: t("job.state"),
      render: ({ state }) => html`<${Badge} kind=${state === "fresh" ? "ok" : "warn"}>${tOr(`master.${state}`, visible(state))}<//>`
    },
    {
      key: "node",
      label: t("workers.host"),
      render: (master) => html`<${Text} value=${master.node_id} max=${60} /> <span class="muted num">${master.pid}</span>`
    },
    {
      key: "seen",
      label: t("workers.seen"),
      align: "end",
      priority: 2,
      render: (master) => html`<${Time} at=${master.last_seen_at} />`
    },
    {
      key: "started",
      label: t("masters.started"),
      align: "end",
      priority: 2,
      render: (master) => html`<${Time} at=${master.started_at} />`
    },
    {
      key: "url",
      label: t("workers.address"),
      priority: 2,
      render: (master) => html`<${Text} value=${master.url} max=${80} />`
    },
    {
      key: "version",
      label: t("workers.version"),
      priority: 3,
      render: (master) => html`<${Text} value=${master.version} max=${40} />`
    },
    { key: "id", label: t("job.id"), priority: 3, render: (master) => html`<${Id} id=${master.id} />` }
  ];
  if (onDemote)
    columns3.push({
      key: "act",
      label: t("job.actions"),
      align: "end",
      render: (master) => master.role === "leader" && html`<${Button} opensDialog class="small" onClick=${() => onDemote(master)}>${t("masters.demote")}<//>`
    });
  return columns3;
}
function Demote({ master, others, onClose, onDone }) {
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const confirm = async () => {
    try {
      await post(`api/masters/${encodeURIComponent(master.id)}/demote`);
      toast(t("masters.demoted"));
      await onDone();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("masters.demote.title")} onClose=${onClose}>
    <p>${t("masters.demote.text")}</p><p>${t("masters.others", { count: others })}</p><${ErrorBox} problem=${problem} />
    <footer><${Button} onClick=${onClose}>${t("cancel")}<//><${Button} kind="danger" onClick=${confirm}>${t("masters.demote")}<//></footer><//>`;
}
function Leaders({ epoch }) {
  const { data, problem } = useResource((signal) => get("api/audit", { limit: NEWEST }, signal), [epoch]);
  const entries = (data?.entries ?? []).filter((entry2) => CHANGES.includes(entry2.action));
  return html`<section class="after" aria-labelledby="leaders"><h2 id="leaders">${t("masters.history")}</h2><${ErrorBox} problem=${problem} />
    ${data && (entries.length === 0 ? html`<p class="muted">${t("masters.history.none")} <a href=${href("audit")}>${t("nav.audit")}</a></p>` : html`<${Table} caption=${t("masters.history")} rows=${entries} rowKey=${(entry2) => entry2.id} columns=${[
    {
      key: "at",
      label: t("audit.at"),
      render: (entry2) => html`<${Time} at=${entry2.at} isPast />`
    },
    {
      key: "action",
      label: t("audit.action"),
      render: (entry2) => tOr(`act.${entry2.action}`, visible(entry2.action))
    },
    {
      key: "target",
      label: t("audit.target"),
      render: (entry2) => html`<${Text} value=${entry2.target} max=${80} />`
    },
    {
      key: "who",
      label: t("audit.who"),
      render: (entry2) => html`<${Text} value=${whoText(entry2.who)} max=${80} />`
    }
  ]} />`)}</section>`;
}

// namespaces/conditions.js
function faultOf(one) {
  if (one.state === "closed") return "";
  if (one.fault) return one.fault;
  if (one.state !== "open") return t(`namespaces.fault.${one.state}`);
  if (one.leader === null) return t("namespaces.fault.no_leader");
  if (isFull(one)) return t("namespaces.fault.full");
  return one.failed_move ? t("namespaces.fault.move", { reason: one.failed_move }) : "";
}
var isBad = (one) => one.state !== "closed" && (Boolean(one.fault) || one.state !== "open" || one.leader === null);
var isFull = (one) => one.waiting_quota !== null && one.waiting_quota >= 1;
var isWarned = (one) => isFull(one) || one.failed_move !== null;
function rankOf(one) {
  if (one.state === "closed") return 3;
  if (isBad(one)) return 0;
  return isWarned(one) ? 1 : 2;
}
var worstFirst = (entries) => [...entries].sort(
  (a2, b2) => rankOf(a2) - rankOf(b2) || (b2.oldest_wait_s ?? 0) - (a2.oldest_wait_s ?? 0) || (b2.failures ?? 0) - (a2.failures ?? 0)
);

// namespaces/editor.js
var QUOTAS = (
  /** @type {const} */
  [
    "waiting_jobs",
    "waiting_bytes",
    "pushes_per_s",
    "argument_bytes",
    "workers",
    "streams"
  ]
);
var pathOfNamespace = (name) => (
  /** @type {const} */
  `api/namespaces/${encodeURIComponent(name)}`
);
var labelOf5 = (name) => t(`namespaces.${name}`);
var valuesOf5 = (one) => ({
  name: one?.name ?? "",
  title: one?.title ?? "",
  store: one?.store ?? "",
  tag: "",
  ...Object.fromEntries(QUOTAS.map((quota) => [quota, String(one?.quotas[quota] ?? "")]))
});
function documentOf2(values2, isNew) {
  const text = (name) => values2[name]?.trim() ?? "";
  return {
    title: text("title"),
    ...isNew && { store: text("store") || null, tag: text("tag") || null },
    quotas: Object.fromEntries(QUOTAS.map((quota) => [quota, text(quota) ? Number(text(quota)) : null]))
  };
}
function NamespaceEditor({ one, stores, onClose, onDone }) {
  const form = useForm(one, valuesOf5);
  const save = async (given, base) => {
    const name = one ? one.name : given["name"]?.trim() ?? "";
    if (!name) {
      const msg = t("constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    await put(pathOfNamespace(name), documentOf2(given, !one), {
      ...base ? { "If-Match": `"${base.version}"` } : { "If-None-Match": "*" }
    });
    await loadNamespaces();
    await onDone(name);
    return t("namespaces.saved", { name: visible(name) });
  };
  const field = (name, more = {}) => html`<${FormField} form=${form} name=${name} label=${labelOf5(name)} spellcheck=${false} ...${more} />`;
  return html`<${FormDialog}
      title=${one ? `${t("namespaces.edit")} · ${visible(one.name)}` : t("namespaces.make")} form=${form}
      onClose=${onClose} onSave=${save} isNew=${!one}
      reread=${one ? () => get(pathOfNamespace(one.name)) : void 0} labelOf=${labelOf5}>
      ${!one && field("name", { hint: t("namespaces.name.rule"), maxlength: "39", autocapitalize: "none" })}
      ${field("title", { hint: t("namespaces.title.hint"), maxlength: "100", spellcheck: true })}
      ${!one && stores.length > 1 && html`<${FormField}
            form=${form} name="store" label=${labelOf5("store")} as="select" hint=${t("namespaces.store.hint")}>
            ${stores.map(
    (store) => html`<option key=${store} value=${store === "default" ? "" : store}>${visible(store)}</option>`
  )}
          <//>`}
      <h3>${t("namespaces.quotas")}</h3><p class="muted">${t("namespaces.quotas.hint")}</p>
      ${QUOTAS.map(
    (quota) => field(quota, {
      key: quota,
      type: "number",
      min: "1",
      step: "1",
      path: `quotas.${quota}`,
      hint: t(`namespaces.${quota}.hint`)
    })
  )}
      ${!one && html`<${FormMore} form=${form} names=${["tag"]} problem=${form.problem} label=${t("namespaces.more")}>
            ${field("tag", { hint: t("namespaces.tag.hint"), maxlength: "64", autocapitalize: "none" })}
          <//>`}
    <//>`;
}

// namespaces/move.js
var STORES = { pollMs: 5e3 };
var pathOfMove = (name) => (
  /** @type {const} */
  `${pathOfNamespace(name)}/move`
);
function MoveDialog({ one, onClose, onDone }) {
  const stores = useResource((signal) => get("api/stores", {}, signal), [], STORES);
  const others = (stores.data?.stores ?? []).map((store2) => store2.name).filter((name) => name !== one.store);
  const [chosen, setChosen] = E2("");
  const store = chosen || others[0] || "";
  const { plan, problem } = usePlan(pathOfMove(one.name), "store", store);
  const begin = async () => {
    await post(pathOfMove(one.name), { store });
    toast(t("namespaces.move.begun", { name: visible(one.name) }));
    await onDone();
  };
  return html`<${Sure}
      title=${t("namespaces.move.title", { name: visible(one.name) })} verb=${t("namespaces.move")}
      isReady=${plan !== null} onConfirm=${begin} onClose=${onClose}>
      <p>${t("namespaces.move.text")}</p>
      <${ErrorBox} problem=${stores.problem} onRetry=${stores.reload} />
      ${stores.data && others.length === 0 ? html`<p>${t("namespaces.move.none")}</p>` : html`<${Field} label=${t("namespaces.move.to")}>
              ${(attributes) => html`<select
                    ...${attributes} name="store" value=${store}
                    onChange=${(event) => setChosen(event.target.value)}>
                    ${others.map((name) => html`<option key=${name} value=${name}>${visible(name)}</option>`)}
                  </select>`}
            <//>`}
      <${ErrorBox} problem=${problem} />
      ${store && !plan && !problem && html`<${Loading} />`}
      ${plan && html`<${PlanFacts} plan=${plan} />`}
    <//>`;
}
function usePlan(path, key, target) {
  const [plan, setPlan] = E2(
    /** @type {unknown} */
    null
  );
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  W2(() => {
    let isOver = false;
    setPlan(null);
    setProblem(null);
    if (target)
      post(path, { [key]: target, dry_run: true }).then(
        (answer) => {
          if (!isOver) setPlan(answer);
        },
        (error) => {
          if (!isOver) setProblem(error instanceof Problem ? error : new Problem(0, {}));
        }
      );
    return () => {
      isOver = true;
    };
  }, [path, key, target]);
  return { plan: (
    /** @type {PlanOf<Key> | null} */
    plan
  ), problem };
}
var PlanFacts = ({ plan }) => html`<div role="status"><dl class="facts">
    <dt>${t("namespaces.move.keys")}</dt><dd><${Num} value=${plan.keys} /></dd>
    <dt>${t("namespaces.memory")}</dt><dd><${Bytes} value=${plan.bytes} /></dd>
    <dt>${t("namespaces.move.stop")}</dt><dd><${Duration} ms=${plan.stop_s * 1e3} /></dd></dl></div>
    ${!plan.keeps_leases && html`<p class="fault warn">${t("namespaces.move.reruns")}</p>`}`;
function MoveCard({ one, mayAbort, onDone }) {
  const { move } = one;
  if (!move) return null;
  const abort = async () => {
    if (await attempt(() => call("DELETE", pathOfMove(one.name)), t("namespaces.move.aborting")))
      await onDone();
  };
  const done = doneOf(move);
  const keys = Math.max(done ?? 0, move.keys);
  return html`<section class="card"><h2>${t("namespaces.move.card")}</h2><dl class="facts">
    <dt>${t("namespaces.state")}</dt><dd><${Badge} kind=${KINDS7[move.step] ?? "info"}>${t(`namespaces.move.step.${move.step}`)}<//></dd>
    <dt>${t("namespaces.move.from")}</dt><dd><${Text} value=${move.source} max=${40} /></dd>
    <dt>${t("namespaces.move.to")}</dt><dd><${Text} value=${move.target} max=${40} /></dd>
    ${done !== null && html`<dt>${t("namespaces.move.progress")}</dt><dd><${Bar} value=${done} of=${keys} label=${t("namespaces.move.progress")} /></dd>`}
    ${move.reason && html`<dt>${t("namespaces.move.reason")}</dt><dd><${Text} value=${move.reason} max=${500} /></dd>`}
    <dt>${t("namespaces.move.by")}</dt><dd><${Text} value=${move.by} max=${60} /></dd>
    <dt>${t("namespaces.move.began")}</dt><dd><${Time} at=${move.began_at} /></dd>
    ${move.ended_at && html`<dt>${t("namespaces.move.ended")}</dt><dd><${Time} at=${move.ended_at} /></dd>`}</dl>
    ${mayAbort && !move.ended_at && html`<p><${Button} disabled=${move.aborted_by !== ""} onClick=${abort}>${t("namespaces.move.abort")}<//></p>`}</section>`;
}
var KINDS7 = { done: "ok", failed: "bad", aborted: "off", returning: "warn" };
function doneOf(move) {
  if (move.step === "copying") return move.copied_keys;
  return move.step === "checking" ? move.compared_keys : null;
}

// namespaces/slot.js
var POLL = { pollMs: 2e3 };
var pathOfSlot = (name) => (
  /** @type {const} */
  `${pathOfNamespace(name)}/slot`
);
var pathOfMove2 = (name) => (
  /** @type {const} */
  `${pathOfSlot(name)}/move`
);
function SlotCard({ name, mayMove }) {
  const [target, setTarget] = E2("");
  const found = useResource((signal) => get(pathOfSlot(name), {}, signal), [name], POLL);
  const slot = found.data;
  const isMoving = slot?.move?.ended_at === null;
  const abort = async () => {
    if (await attempt(() => call("DELETE", pathOfMove2(name)), t("namespaces.move.aborting")))
      await found.reload();
  };
  const isOffered = mayMove && slot && !slot.fault && !isMoving;
  return html`<section class="card"><h2>${t("namespaces.slot")}</h2>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${!slot && !found.problem && html`<${Loading} />`}
      ${slot && html`<dl class="facts">
            <dt>${t("namespaces.slot.number")}</dt><dd><${Num} value=${slot.slot} /></dd>
            <dt>${t("namespaces.slot.node")}</dt><dd>${slot.node === null ? t("namespaces.slot.nowhere") : html`<${Text} value=${slot.node} max=${60} />`}</dd>
            ${slot.move && html`<${MoveFacts} move=${slot.move} />`}
          </dl>
          ${mayMove && isMoving && html`<p><${Button} onClick=${abort}>${t("namespaces.move.abort")}<//></p>`}
          ${mayMove && slot.fault && html`<p class="muted"><${Text} value=${slot.fault} max=${400} /></p>`}
          <div class="after"><${Table}
            caption=${t("namespaces.slot.nodes")} rows=${slot.nodes} rowKey=${(one) => one.id}
            label=${(one) => one.address}
            columns=${columnsOf7(isOffered ? setTarget : null)} /></div>`}
      ${target && html`<${SlotMoveDialog}
          name=${name} target=${target} onClose=${() => setTarget("")} onDone=${found.reload} />`}
    </section>`;
}
var columnsOf7 = (onMove) => [
  {
    key: "node",
    label: t("namespaces.slot.node"),
    phone: "main",
    render: (one) => html`<${Text} value=${one.address} max=${60} />`
  },
  {
    key: "memory",
    label: t("namespaces.memory"),
    align: "end",
    phone: "line",
    render: ({ used_memory_bytes: used, max_memory_bytes: most }) => html`<${Bytes} value=${used} />${most !== null && html` / <${Bytes} value=${most} />`}`
  },
  {
    key: "move",
    label: t("job.actions"),
    align: "end",
    phone: "side",
    render: (one) => one.has_slot ? html`<span class="muted">${t("namespaces.slot.here")}</span>` : onMove && html`<${Button} opensDialog class="small" onClick=${() => onMove(one.address)}>${t("namespaces.slot.move")}<//>`
  }
];
var MoveFacts = ({ move }) => html`<dt>${t("namespaces.move.card")}</dt>
    <dd><${Badge} kind=${KINDS7[move.state] ?? "info"}>${t(`namespaces.slot.state.${move.state}`)}<//>
      ${" "}${t("namespaces.slot.way", { source: visible(move.source), target: visible(move.target) })}</dd>
    ${move.reason && html`<dt>${t("namespaces.move.reason")}</dt><dd><${Text} value=${move.reason} max=${300} /></dd>`}
    <dt>${t("namespaces.move.began")}</dt><dd><${Time} at=${move.began_at} /></dd>
    ${move.ended_at && html`<dt>${t("namespaces.move.ended")}</dt><dd><${Time} at=${move.ended_at} /></dd>`}`;
function SlotMoveDialog({ name, target, onClose, onDone }) {
  const { plan, problem } = usePlan(pathOfMove2(name), "node", target);
  const begin = async () => {
    await post(pathOfMove2(name), { node: target });
    toast(t("namespaces.move.begun", { name: visible(name) }));
    await onDone();
  };
  return html`<${Sure}
      title=${t("namespaces.slot.title", { name: visible(name), node: visible(target) })}
      verb=${t("namespaces.move")} isReady=${plan !== null} onConfirm=${begin} onClose=${onClose}>
      <p>${t("namespaces.slot.text")}</p>
      <${ErrorBox} problem=${problem} />
      ${!plan && !problem && html`<${Loading} />`}
      ${plan && html`<div role="status"><dl class="facts">
          <dt>${t("namespaces.move.keys")}</dt><dd><${Num} value=${plan.keys} /></dd>
          <dt>${t("namespaces.memory")}</dt><dd><${Bytes} value=${plan.bytes} /></dd></dl></div>`}
    <//>`;
}

// namespaces/stores.js
var COLUMNS5 = [
  {
    key: "name",
    label: "namespaces.store",
    phone: "main",
    render: ({ name, server }) => html`<${Text} value=${name} max=${40} /> <span class="muted"><${Text} value=${server} max=${40} /></span>`
  },
  {
    key: "state",
    label: "namespaces.state",
    phone: "side",
    render: ({ faults }) => Object.keys(faults).length > 0 ? html`<${Badge} kind="bad">${t("fault.bad")}<//>` : html`<${Badge} kind="ok">${t("namespaces.store.ok")}<//>`
  },
  {
    key: "topology",
    label: "namespaces.topology",
    priority: 2,
    render: ({ topology }) => tOr(`namespaces.topology.${topology}`, visible(topology))
  },
  {
    key: "memory",
    label: "namespaces.memory",
    align: "end",
    priority: 2,
    render: ({ used_memory_bytes: used, max_memory_bytes: most }) => html`<${Bytes} value=${used} />${most !== null && html` / <${Bytes} value=${most} />`}`
  },
  {
    key: "namespaces",
    label: "nav.namespaces",
    phone: "line",
    render: ({ namespaces }) => namespaces.map(
      (name, at2) => html`${at2 > 0 && ", "}<a key=${name} href=${href("namespaces", { name })}>${visible(name)}</a>`
    )
  }
];
function Stores({ stores }) {
  return html`<div class="after stores">
      <h2>${t("namespaces.stores")}</h2>
      ${stores.flatMap(
    ({ name, faults }) => Object.entries(faults).map(
      ([key, why]) => html`<p key=${`${name} ${key}`} class="fault bad">
                <${Badge} kind="bad">${t("fault.bad")}<//>
                <span class="fault-text">${visible(name)}: <${Text} value=${why} max=${300} /></span>
              </p>`
    )
  )}
      <${Table}
        caption=${t("namespaces.stores")} rows=${stores} rowKey=${(store) => store.name}
        columns=${COLUMNS5.map((column) => ({ ...column, label: t(column.label) }))} />
    </div>`;
}

// namespaces/pages/namespaces.js
var FIGURES4 = { pollMs: 2e3 };
var STORES2 = { pollMs: 5e3 };
function Page13({ query, go: go3, session: session2 }) {
  const { name } = query;
  return name ? html`<${One6} key=${name} name=${name} go=${go3} session=${session2} />` : html`<${List8} go=${go3} session=${session2} />`;
}
var nameOf6 = (one) => one.name;
function StateBadge2({ one }) {
  const kind = isBad(one) ? "bad" : isWarned(one) ? "warn" : one.state === "open" ? "ok" : "off";
  return html`<${Badge} kind=${kind}>${isBad(one) && one.state === "open" ? t("fault.bad") : t(`namespaces.state.${one.state}`)}<//>`;
}
var Use = ({ one }) => one.waiting_quota === null ? html`<span class="muted">${t("none")}</span>` : html`<span class="row">
        <${Num} value=${one.waiting_quota * 100} /> % <${Bar}
          value=${Math.min(1, one.waiting_quota)} of=${1} label=${t("namespaces.quota")}
          kind=${isFull(one) ? "bad" : "info"} />
      </span>`;
var Wait = ({ one }) => one.oldest_wait_s === null ? html`<${Num} value=${null} />` : html`<${Duration} ms=${one.oldest_wait_s * 1e3} />`;
function List8({ go: go3, session: session2 }) {
  const hold = useHold();
  const [isMaking, setMaking] = E2(false);
  const found = useResource((signal) => get("api/overview", {}, signal), [], FIGURES4);
  const stores = useResource((signal) => get("api/stores", {}, signal), [], STORES2);
  W2(() => void loadNamespaces(), []);
  const entries = worstFirst(found.data?.namespaces ?? []);
  const { rows } = useSteadyRows(entries, nameOf6, hold.isHeld, "");
  const configured = stores.data?.stores ?? [];
  return html`<div class="page-head">
      <h1>${t("nav.namespaces")}</h1>
      ${may(session2, "admin") && html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t("namespaces.make")}<//>`}
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div class="stack">
      ${entries.filter(faultOf).map(
    (one) => html`<p key=${one.name} class=${`fault ${isBad(one) ? "bad" : ""}`}>
                <${Badge} kind=${isBad(one) ? "bad" : "warn"}>
                  ${t(isBad(one) ? "fault.bad" : "fault.warn")}
                <//>
                <span class="fault-text">
                  <a href=${href("namespaces", { name: one.name })}>${visible(one.name)}</a>
                  : <${Text} value=${faultOf(one)} max=${300} />
                </span>
              </p>`
  )}
    </div>
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${Table}
              caption=${t("nav.namespaces")} rows=${rows} rowKey=${nameOf6} label=${nameOf6}
              onOpen=${(one) => go3("namespaces", { name: one.name })}
              columns=${COLUMNS6.map((column) => ({ ...column, label: labelOf6(column) }))} />
          </div>
          ${entries.length === 1 && html`<${Empty} title=${t("namespaces.only")} curl=${curl(session2, "PUT", "api/namespaces/shop", { body: { title: "Shop" } })} />`}`}
    <${ErrorBox} problem=${stores.problem} onRetry=${stores.reload} />
    ${configured.length > 0 && html`<${Stores} stores=${configured} />`}
    ${isMaking && html`<${NamespaceEditor}
          one=${null} stores=${configured.map((store) => store.name)} onClose=${() => setMaking(false)}
          onDone=${(name) => go3("namespaces", { name })} />`}`;
}
var labelOf6 = ({ label, hint }) => hint ? html`<span title=${t(hint)}>${t(label)}</span>` : t(label);
var COLUMNS6 = [
  {
    key: "name",
    label: "namespaces.one",
    phone: "main",
    render: (one) => html`<a href=${href("namespaces", { name: one.name })}>${visible(one.name)}</a> <span class="muted"><${Text} value=${one.title} max=${100} /></span>`
  },
  {
    key: "state",
    label: "namespaces.state",
    phone: "side",
    render: (one) => html`<${StateBadge2} one=${one} />`
  },
  {
    key: "ready",
    label: "state.ready",
    align: "end",
    phone: "line",
    render: (one) => html`<${Num} value=${one.ready} />`
  },
  {
    key: "running",
    label: "state.running",
    align: "end",
    priority: 2,
    render: (one) => html`<${Num} value=${one.running} />`
  },
  {
    key: "wait",
    label: "namespaces.wait",
    align: "end",
    phone: "line",
    render: (one) => html`<${Wait} one=${one} />`
  },
  {
    key: "quota",
    label: "namespaces.quota",
    priority: 2,
    render: (one) => html`<${Use} one=${one} />`
  },
  {
    key: "failures",
    label: "namespaces.failures",
    hint: "namespaces.failures.hours",
    align: "end",
    priority: 2,
    render: (one) => html`<${Num} value=${one.failures} />`
  },
  {
    key: "store",
    label: "namespaces.store",
    priority: 2,
    render: (one) => html`<${Text} value=${one.store} max=${40} />`
  },
  {
    key: "leader",
    label: "namespaces.leader",
    priority: 4,
    render: (one) => one.leader === null ? html`<${Num} value=${null} />` : html`<${Id} id=${one.leader} />`
  },
  {
    key: "enter",
    label: "job.actions",
    align: "end",
    render: (one) => one.state === "open" && html`<a href=${addressOf(one.name, "#/overview")} aria-label=${t("namespaces.enter.name", { name: visible(one.name) })}>${t("namespaces.enter")}</a>`
  }
];
function One6({ name, go: go3, session: session2 }) {
  const path = pathOfNamespace(name);
  const [dialog, setDialog] = E2("");
  const found = useResource((signal) => get(path, {}, signal), [name], FIGURES4);
  const figures2 = useResource((signal) => get("api/overview", {}, signal), [name], FIGURES4);
  const stores = useResource((signal) => get("api/stores", {}, signal), [name], STORES2);
  useTitle(name);
  const one = found.data;
  const entry2 = figures2.data?.namespaces.find((other) => other.name === name);
  if (!one) return html`<${NoNamespace} name=${name} found=${found} session=${session2} go=${go3} />`;
  const fault2 = entry2 ? faultOf(entry2) : "";
  const store = stores.data?.stores.find((other) => other.name === one.store);
  const isOnCluster = store?.topology === "cluster";
  const changed2 = async () => {
    await Promise.all([found.reload(), figures2.reload(), loadNamespaces()]);
  };
  return html`<p class="crumbs"><a href=${href("namespaces")}>${t("nav.namespaces")}</a></p>
    <div class="page-head job-head">
      <h1><${Text} value=${name} max=${60} /></h1>${entry2 && html`<${StateBadge2} one=${entry2} />`}
    </div>
    <${ErrorBox} problem=${found.problem ?? figures2.problem} onRetry=${changed2} />
    ${fault2 && html`<p class=${`fault ${entry2 && !isBad(entry2) ? "" : "bad"}`} role="alert">
          <${Badge} kind=${entry2 && !isBad(entry2) ? "warn" : "bad"}>
            ${t(entry2 && !isBad(entry2) ? "fault.warn" : "fault.bad")}
          <//>
          <span class="fault-text"><${Text} value=${fault2} max=${300} /></span>
        </p>`}
    <${Actions7} one=${one} session=${session2} onAsk=${setDialog} onDone=${changed2} />
    <div class="job-grid">
      <div class="stack">
        <${Facts7} one=${one} /><${MoveCard} one=${one} mayAbort=${may(session2, "admin")} onDone=${changed2} />
        ${isOnCluster && html`<${SlotCard} name=${name} mayMove=${may(session2, "admin")} />`}
      </div>
      <div class="stack">${entry2 && html`<${Now2} one=${entry2} />`}</div>
    </div>
    ${may(session2, "operate") && html`<${Changes} name=${name} etag=${String(one.version)} />`}
    <${Question2} asked=${dialog} one=${one} go=${go3} onClose=${() => setDialog("")} onDone=${changed2} />`;
}
function NoNamespace({ name, found, session: session2, go: go3 }) {
  const [isDeleting, setDeleting] = E2(false);
  if (found.problem?.status === 404)
    return html`<${Absent} page="namespaces" title=${t("namespaces.unknown", { name: visible(name) })} found=${found} />`;
  return html`<p class="crumbs"><a href=${href("namespaces")}>${t("nav.namespaces")}</a></p>
    <h1><${Text} value=${name} max=${60} /></h1>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.problem && html`<${Loading} />`}
    ${found.problem?.code === "damaged" && may(session2, "admin") && html`<div class="row actions">
        <${Button} opensDialog kind="danger" onClick=${() => setDeleting(true)}>${t("action.delete")}<//>
      </div>`}
    ${isDeleting && html`<${Deletion2} name=${name} go=${go3} isDamaged onClose=${() => setDeleting(false)} />`}`;
}
function Actions7({ one, session: session2, onAsk, onDone }) {
  const { name } = one;
  const isAtRest = one.state !== "moving" && !one.move_fault && !(one.move && one.move.ended_at === null);
  const open = async () => {
    const act = () => post(`${pathOfNamespace(name)}/open`);
    if (await attempt(act, t("namespaces.opened", { name: visible(name) }))) await onDone();
  };
  return html`<div class="row actions" role="group" aria-label=${t("namespaces.actions")}>
      ${one.state === "open" && html`<a class="button primary" href=${addressOf(name, "#/overview")}>${t("namespaces.enter.name", { name: visible(name) })}</a>`}
      ${may(session2, "admin") && html`<${Button} opensDialog onClick=${() => onAsk("edit")}>${t("namespaces.edit")}<//>
          ${name !== DEFAULT && one.state === "open" && html`<${Button} opensDialog onClick=${() => onAsk("close")}>${t("namespaces.close")}<//>`}
          ${one.move_fault && html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("end")}>${t("namespaces.move.end")}<//>`}
          ${name !== DEFAULT && isAtRest && html`<${Button} opensDialog onClick=${() => onAsk("move")}>${t("namespaces.move")}<//>`}
          ${one.state === "closed" && html`<${Button} onClick=${open}>${t("namespaces.open")}<//>
              <${Button} opensDialog kind="danger" onClick=${() => onAsk("delete")}>
                ${t("action.delete")}
              <//>`}`}
    </div>`;
}
function Question2({ asked, one, go: go3, onClose, onDone }) {
  const { name } = one;
  const endMove = async () => {
    await call("DELETE", pathOfMove(name), { query: { force: true } });
    toast(t("namespaces.move.end.done", { name: visible(name) }));
    await onDone();
  };
  const close2 = async () => {
    await post(`${pathOfNamespace(name)}/close`);
    toast(t("namespaces.closed", { name: visible(name) }));
    await onDone();
  };
  switch (asked) {
    case "move":
      return html`<${MoveDialog} one=${one} onClose=${onClose} onDone=${onDone} />`;
    case "end":
      return html`<${Sure}
          title=${t("namespaces.move.end.title", { name: visible(name) })} verb=${t("namespaces.move.end")}
          onClose=${onClose} onConfirm=${endMove}>
          <p>${t("namespaces.move.end.text")}</p>
        <//>`;
    case "edit":
      return html`<${NamespaceEditor} one=${one} stores=${[]} onClose=${onClose} onDone=${onDone} />`;
    case "close":
      return html`<${Sure}
          title=${t("namespaces.close.title", { name: visible(name) })} verb=${t("namespaces.close")}
          onClose=${onClose} onConfirm=${close2}>
          <p>${t("namespaces.close.text")}</p>
        <//>`;
    case "delete":
      return html`<${Deletion2} name=${name} go=${go3} onClose=${onClose} />`;
    default:
      return null;
  }
}
function Facts7({ one }) {
  return html`<section class="card">
      <h2>${t("namespaces.facts")}</h2>
      <dl class="facts">
        ${one.title && html`<dt>${t("namespaces.title")}</dt><dd><${Text} value=${one.title} max=${100} /></dd>`}
        <dt>${t("namespaces.address")}</dt>
        <dd><code>${visible(new URL(addressOf(one.name), document.baseURI).href)}</code></dd>
        <dt>${t("namespaces.store")}</dt><dd><${Text} value=${one.store} max=${40} /></dd>
        <dt>${t("namespaces.tag")}</dt><dd><code>${visible(one.tag)}</code></dd>
        ${QUOTAS.map(
    (quota) => html`<dt key=${quota}>${t(`namespaces.${quota}`)}</dt>
              <dd>
                ${one.quotas[quota] === null ? t("namespaces.quota.none") : html`<${Num} value=${one.quotas[quota]} />`}
              </dd>`
  )}
      </dl>
    </section>`;
}
function Now2({ one }) {
  return html`<section class="card"><h2>${t("targets.now")}</h2><dl class="facts">
    <dt>${t("state.ready")}</dt><dd><${Num} value=${one.ready} /></dd>
    <dt>${t("state.running")}</dt><dd><${Num} value=${one.running} /></dd>
    <dt>${t("namespaces.waiting")}</dt><dd><${Num} value=${one.waiting} /></dd>
    <dt>${t("namespaces.wait")}</dt><dd><${Wait} one=${one} /></dd>
    <dt>${t("namespaces.quota")}</dt><dd><${Use} one=${one} /></dd>
    <dt>${t("namespaces.failures.hours")}</dt><dd><${Num} value=${one.failures} /></dd>
    <dt>${t("namespaces.leader")}</dt><dd>${one.leader === null ? html`<${Num} value=${null} />` : html`<${Id} id=${one.leader} />`}</dd></dl></section>`;
}
function Deletion2({ name, go: go3, onClose, isDamaged = false }) {
  const [typed, setTyped] = E2("");
  const [isForced, setForced] = E2(isDamaged);
  const remove = async () => {
    await call("DELETE", pathOfNamespace(name), { query: { confirm: typed.trim(), force: isForced } });
    toast(t("namespaces.deleted", { name: visible(name) }));
    await loadNamespaces();
    go3("namespaces");
  };
  return html`<${Sure}
      title=${t("namespaces.delete.title", { name: visible(name) })} verb=${t("action.delete")}
      isReady=${typed.trim() === name} onConfirm=${remove} onClose=${onClose}>
      <p>${t("namespaces.delete.text")}</p>
      <${Field} label=${t("namespaces.delete.type", { name: visible(name) })}>
        ${(attributes) => html`<input
              ...${attributes} name="confirm" autocomplete="off" autocapitalize="none" spellcheck=${false}
              value=${typed} onInput=${(event) => setTyped(event.target.value)} />`}
      <//>
      <label class="check">
        <input type="checkbox" checked=${isForced} onChange=${() => setForced(!isForced)} /> ${t(
    "namespaces.delete.force"
  )}
      </label>
    <//>`;
}

// operations/pages/incidents.js
var POLL_MS8 = 3e3;
var DAY_MS3 = 864e5;
var AROUND_MS = 6e4;
function Page14({ query, session: session2 }) {
  const id = query["id"];
  return id ? html`<${One7} key=${id} id=${id} mayOperate=${may(session2, "operate")} />` : html`<${All2} />`;
}
function All2() {
  const { data, problem, reload } = useResource((signal) => get("api/incidents", {}, signal), [], {
    events: ["masters", "workers"],
    pollMs: POLL_MS8
  });
  const marks = useResource(
    (signal) => get("api/marks", { since: new Date(nowMs() - DAY_MS3).toISOString() }, signal),
    [],
    { events: ["masters", "workers", "constraints"], leastMs: 2e3, pollMs: POLL_MS8 }
  );
  const incidents = (
    /** @type {Incident[]} */
    data?.incidents ?? []
  );
  return html`<div class="page-head"><h1>${t("nav.incidents")}</h1></div>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${data === null ? !problem && html`<${Loading} />` : incidents.length === 0 ? html`<${Empty} title=${t("incident.none")} />` : html`<ol class="plain incidents" aria-label=${t("nav.incidents")}>
              ${incidents.map(
    (one) => html`<li key=${one.id} class="card">
                    <p class="row">
                      <${Condition2} incident=${one} /> <a href=${href("incidents", { id: one.id })}>
                        <strong>${incidentTitle(one)}</strong>
                      </a> <span class="muted"><${Time} at=${one.began_at} isPast /></span>
                    </p>
                    <p class="muted">
                      <${Lasted} incident=${one} />
                      ${one.acknowledged.length > 0 && html` ${entryText(
      /** @type {IncidentEntry} */
      one.acknowledged.at(-1)
    )}`}
                    </p>
                  </li>`
  )}
            </ol>`}
    <p class="muted">
      ${data?.kept_since ? html`${t("incident.kept")} <${Time} at=${data.kept_since} isPast />` : ""}
    </p>
    <section class="after" aria-labelledby="lately">
      <h2 id="lately">${t("incident.lately")}</h2>
      <${ErrorBox} problem=${marks.problem} onRetry=${marks.reload} />
      ${marks.data && html`<${Marks3}
            marks=${marks.data.marks.filter((mark) => mark.kind !== "incident").reverse()}
            isWhole=${marks.data.is_whole} none=${t("incident.lately.none")} />`}
    </section>`;
}
function One7({ id, mayOperate }) {
  const { data, problem, reload } = useResource(
    (signal) => get(`api/incidents/${encodeURIComponent(id)}`, {}, signal),
    [id],
    { events: ["masters", "workers", "constraints"], pollMs: POLL_MS8 }
  );
  const [isAsking, setAsking] = E2(false);
  const one = (
    /** @type {Detail | null} */
    data
  );
  const title2 = one ? incidentTitle(one) : t("incident.one");
  usePageTitle(title2);
  if (!one)
    return html`<h1>${t("incident.one")}</h1><${ErrorBox} problem=${problem} onRetry=${reload} />
      ${!problem && html`<${Loading} />`}<p><a href=${href("incidents")}>${t("nav.incidents")}</a></p>`;
  return html`<p><a href=${href("incidents")}>← ${t("nav.incidents")}</a></p>
    <div class="page-head">
      <h1>${title2}</h1> <${Condition2} incident=${one} />
      ${mayOperate && html`<${Button} opensDialog onClick=${() => setAsking(true)}>${t("incident.acknowledge")}<//>`}
    </div>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    <p><${Time} at=${one.began_at} isPast /> · <${Lasted} incident=${one} /></p>
    <ol class="plain">
      ${one.acknowledged.map(
    (entry2) => html`<li key=${entry2.id}>
              <${Badge} kind="info">${t("incident.acknowledged")}<//> ${entryText(entry2)} <span class="muted">
                <${Time} at=${entry2.at} isPast />
              </span>
            </li>`
  )}
    </ol>
    <section class="card" aria-labelledby="story">
      <h2 id="story">${t("incident.story")}</h2>
      <ol class="story">
        ${one.entries.map((entry2) => html`<${Entry} key=${entry2.id} entry=${entry2} />`)}${one.ended_at && html`<li>
              <span class="story-at"><${Time} at=${one.ended_at} isPast /></span> <strong>
                ${t("incident.clear", { duration: lastsText(one) })}
              </strong>
            </li>`}
      </ol>
    </section>
    <${Peaks} incident=${one} />
    <section class="after" aria-labelledby="nearby">
      <h2 id="nearby">${t("incident.nearby")}</h2>
      <${Marks3} marks=${one.nearby} isWhole=${one.nearby_is_whole} none=${t("incident.nearby.none")} />
    </section>
    ${isAsking && html`<${Acknowledge} id=${id} onClose=${() => setAsking(false)} onDone=${reload} />`}`;
}
function Entry({ entry: entry2 }) {
  const about = entryLink(entry2);
  return html`<li>
      <span class="story-at"><${Time} at=${entry2.since} isPast /></span> <span>${entryText(entry2)}</span>
      ${about && html` <a href=${about.link}>${about.act} <span aria-hidden="true">→</span></a>`}
    </li>`;
}
function Peaks({ incident }) {
  const { peaks } = incident;
  const around = {
    finished_after: new Date(Date.parse(incident.began_at) - AROUND_MS).toISOString(),
    finished_before: new Date(Date.parse(incident.ended_at ?? "") + AROUND_MS || nowMs()).toISOString()
  };
  return html`<section class="card after" aria-labelledby="peaks"><h2 id="peaks">${t("incident.counts")}</h2>${peaks ? html`<dl class="facts">
        <dt>${t("overview.retried")}</dt><dd><${Num} value=${peaks.retried} /></dd>
        <dt>${t("state.failed")}</dt><dd><a href=${href("jobs", { state: "failed", ...around })}><${Num} value=${peaks.failed} /></a></dd>
        <dt>${t("incident.backlog")}</dt><dd><${Num} value=${peaks.backlog} /></dd>
        <dt>${t("incident.oldest_wait")}</dt><dd>${peaks.oldest_wait_ms === null ? "–" : durationText(steadyMs(peaks.oldest_wait_ms))}</dd></dl>` : html`<p class="muted">${t("incident.counts.gone")}</p>`}</section>`;
}
function Marks3({ marks, isWhole, none }) {
  if (marks.length === 0) return html`<p class="muted">${none}</p>`;
  return html`<ol class="story">
      ${marks.map((mark) => {
    const link = markLink(mark);
    const text = markText(mark);
    return html`<li key=${`${mark.at} ${mark.kind} ${mark.subject}`}>
            <span class="story-at"><${Time} at=${mark.at} isPast /></span> <${Badge} kind="off">
              ${tOr(`mark.kind.${mark.kind}`, visible(mark.kind))}
            <//> ${link ? html`<a href=${link}><${Text} value=${text} max=${300} /></a>` : html`<${Text} value=${text} max=${300} />`}
          </li>`;
  })}
    </ol>
    ${!isWhole && html`<p class="muted">${t("incident.marks.more")} <a href=${href("audit")}>${t("nav.audit")}</a></p>`}`;
}
function Condition2({ incident }) {
  if (incident.ended_at) return html`<${Badge} kind="ok">${t("incident.over")}<//>`;
  return html`<${Badge} kind=${incident.acknowledged.length ? "warn" : "bad"}>${t("incident.ongoing")}<//>`;
}
function Lasted({ incident }) {
  useTick();
  return incident.ended_at ? t("incident.lasted", { duration: lastsText(incident) }) : t("incident.lasts", { duration: lastsText(incident) });
}
var lastsText = ({ began_at, ended_at }) => durationText(steadyMs(Math.max(1e3, (ended_at ? Date.parse(ended_at) : nowMs()) - Date.parse(began_at))));
function Acknowledge({ id, onClose, onDone }) {
  const form = useForm(null, () => ({ note: "" }));
  const save = async ({ note: note2 }) => {
    await post(`api/incidents/${encodeURIComponent(id)}/acknowledge`, { note: note2 });
    await onDone();
    return t("incident.acknowledge.done");
  };
  return html`<${FormDialog}
      title=${t("incident.acknowledge.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("incident.acknowledge")}>
      <p class="muted">${t("incident.acknowledge.text")}</p>
      <${FormField}
        form=${form} name="note" label=${t("incident.note")} hint=${t("incident.note.hint")} maxlength="500" />
    <//>`;
}

// personal_data/erase_dialog.js
var LOG = "log";
function EraseDialog({ id, fields, onClose, onDone }) {
  const form = useForm(null, () => Object.fromEntries(fields.map((field) => [field, "yes"])));
  const path = (
    /** @type {const} */
    `api/jobs/${encodeURIComponent(id)}`
  );
  const chosen = fields.filter((field) => form.values[field] === "yes");
  const save = async (values2) => {
    const erased = fields.filter((field) => values2[field] === "yes");
    const parts = erased.filter((field) => field !== LOG);
    if (parts.length > 0) await post(`${path}/erase`, { fields: parts });
    if (erased.includes(LOG)) await del(`${path}/logs`);
    await onDone(erased);
    return t("personal.erased", { count: erased.length });
  };
  const isNeeded = chosen.some((field) => /^(argument|headers)/.test(field));
  return html`<${FormDialog} title=${t("personal.erase.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("personal.erase")}>
    <p>${t("personal.erase.text")} <${Id} id=${id} /></p>
    <fieldset class="stack"><legend>${t("personal.erase.what")}</legend>${fields.map(
    (field) => html`<label class="check" key=${field}><input ...${form.check(field)} /> <code><${Text} value=${field} max=${200} /></code></label>`
  )}</fieldset>
    ${isNeeded && html`<p class="warn-text">${t("personal.erase.needed")}</p>`}
    <p class="muted">${t("personal.erase.copies")}</p><//>`;
}

// personal_data/pages/personal_data.js
var KINDS8 = (
  /** @type {const} */
  ["jobs", "log_lines", "events", "failure_groups", "notices"]
);
var UNREAD = (
  /** @type {const} */
  ["sealed_values", "damaged_jobs", "archived_logs"]
);
var NOTHING2 = { found: [], searched: {}, unread: {}, last: null, isOver: false };
function Page15() {
  const form = useForm(null, () => ({ texts: "", reason: "" }));
  const [outcome, setOutcome] = E2(
    /** @type {Outcome | null} */
    null
  );
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [erasing, setErasing] = E2(
    /** @type {Match | null} */
    null
  );
  const running = j(
    /** @type {AbortController | null} */
    null
  );
  const [isRunning, setRunning] = E2(false);
  W2(() => () => running.current?.abort(), []);
  const texts = (form.values["texts"] ?? "").split("\n").map((text) => text.trim()).filter(Boolean);
  const stop2 = () => running.current?.abort();
  const search2 = async (event) => {
    event.preventDefault();
    stop2();
    const aborter = new AbortController();
    running.current = aborter;
    setRunning(true);
    setProblem(null);
    try {
      await searchAll(texts, form.values["reason"] ?? "", aborter.signal, setOutcome);
    } catch (error) {
      if (!aborter.signal.aborted) setProblem(error instanceof Problem ? error : new Problem(0, {}));
    } finally {
      if (running.current === aborter) setRunning(false);
    }
  };
  const erased = (match, fields) => setOutcome(
    (now) => now && { ...now, found: now.found.map((one) => one === match ? without(one, fields) : one) }
  );
  return html`<div class="page-head"><h1>${t("nav.personal_data")}</h1></div>
    <p>${t("personal.text")}</p>
    <form class="card stack" onSubmit=${search2}>
      <${FormField}
        form=${form} name="texts" as="textarea" rows="3" path="texts" problem=${problem}
        label=${t("personal.texts")} hint=${t("personal.texts.hint")} spellcheck=${false} autocomplete="off" />
      <${FormField}
        form=${form} name="reason" path="reason" problem=${problem} label=${t("personal.reason")}
        hint=${t("personal.reason.hint")} maxlength="500" />
      <div class="row">
        <button class="button primary" disabled=${isRunning || texts.length === 0}>
          ${t("personal.search")}
        </button>
        ${isRunning && html`<${Button} onClick=${stop2}>${t("personal.stop")}<//>`}
      </div>
    </form>
    <${ErrorBox} problem=${problem} />
    ${outcome && html`<${Found} outcome=${outcome} isRunning=${isRunning} onErase=${setErasing} />`}
    ${erasing && html`<${EraseDialog}
          id=${erasing.id} fields=${erasing.fields} onClose=${() => setErasing(null)}
          onDone=${(fields) => erased(erasing, fields)} />`}`;
}
async function searchAll(texts, reason, signal, tell2) {
  let outcome = NOTHING2;
  tell2(outcome);
  let cursor = null;
  do {
    const body = { texts, reason, cursor };
    const part = (
      /** @type {Part} */
      await call("POST", "api/personal-data/search", { body, signal })
    );
    const found = new Map([...outcome.found, ...part.found].map((one) => [`${one.place} ${one.id}`, one]));
    cursor = part.next_cursor;
    outcome = {
      found: [...found.values()],
      searched: sums(KINDS8, outcome.searched, part.searched),
      unread: sums(UNREAD, outcome.unread, part.unread),
      last: part,
      isOver: cursor === null
    };
    tell2(outcome);
  } while (cursor !== null && !signal.aborted);
}
var sums = (kinds, one, other) => Object.fromEntries(kinds.map((kind) => [kind, (one[kind] ?? 0) + (other[kind] ?? 0)]));
var without = (match, fields) => ({
  ...match,
  fields: match.fields.filter((field) => !fields.includes(field))
});
function Found({ outcome, isRunning, onErase }) {
  const { found, last } = outcome;
  const columns3 = [
    { key: "place", label: t("personal.what"), render: Place, phone: "side" },
    { key: "object", label: t("personal.object"), render: Linked2, phone: "main" },
    { key: "fields", label: t("personal.where"), render: Fields, phone: "line" },
    {
      key: "act",
      label: t("personal.act"),
      phone: "side",
      render: (one) => one.erasable && one.fields.length > 0 && html`<${Button} class="small" opensDialog onClick=${() => onErase(one)}>${t("personal.erase.open")}<//>`
    }
  ];
  const empty = html`<${Empty} title=${outcome.isOver ? t("personal.none") : t("personal.none.yet")} />`;
  return html`<section class="after" aria-labelledby="found">
      <h2 id="found">${t("personal.found", { count: found.length })}</h2>
      <div role="status">
        ${isRunning && last && html`<p>
              ${t("personal.progress", {
    done: number(outcome.searched["jobs"] ?? 0),
    total: number(last.total_jobs)
  })}
            </p>
            <${Bar}
              value=${outcome.searched["jobs"] ?? 0} of=${Math.max(1, last.total_jobs)}
              label=${t("personal.bar")} />`}
        ${!isRunning && !outcome.isOver && html`<p class="warn-text">${t("personal.stopped")}</p>`}
      </div>
      <${Table}
        caption=${t("personal.results")} columns=${columns3} rows=${found}
        rowKey=${(one) => `${one.place} ${one.id}`} empty=${empty} />
      ${last && html`<${Extent} outcome=${outcome} last=${last} />`}
    </section>`;
}
var Place = (match) => html`<${Badge} kind="off">${t(`personal.place.${match.place}`)}<//>${match.state && html` <${State} state=${match.state} />`}`;
function Linked2(match) {
  const links = {
    job: () => href("job", { id: match.id }),
    event: () => href("events", { id: match.id }),
    failure_group: () => href("failures", { q: match.name }),
    notice: () => href("notices", { name: match.id })
  };
  return html`<a href=${links[match.place]()}><${Text} value=${match.name} max=${60} /></a> ${match.place !== "notice" && html`<span class="muted small"><${Text} value=${match.id} max=${40} /></span>`}`;
}
var Fields = (match) => match.fields.length === 0 ? html`<span class="muted">${t("personal.nothing_left")}</span>` : html`${match.fields.map(
  (field) => html`<code class="chip" key=${field}><${Text} value=${field} max=${80} /></code> `
)}
      ${match.more_fields > 0 && t("personal.more", { count: match.more_fields })}`;
function Extent({ outcome, last }) {
  const { searched, unread } = outcome;
  return html`<div class="card after">
      <h3>${t("personal.extent")}</h3>
      <dl class="facts">
        ${KINDS8.map(
    (kind) => html`<dt>${t(`personal.kind.${kind}`)}</dt><dd class="num">${number(searched[kind] ?? 0)}</dd>`
  )}
      </dl>
      <h3>${t("personal.not_searched")}</h3>
      <ul>
        ${UNREAD.filter((kind) => unread[kind]).map(
    (kind) => html`<li key=${kind}>${t(`personal.unread.${kind}`, { count: unread[kind] ?? 0 })}</li>`
  )}
        ${last.redacted.length > 0 && html`<li>${t("personal.redacted")} ${last.redacted.map((path) => html`<code class="chip"><${Text} value=${path} max=${80} /></code> `)}</li>`}
        ${last.not_searched.map((text) => html`<li key=${text}>${tOr(`personal.not.${text}`, text)}</li>`)}
      </ul>
    </div>`;
}

// identity/pages/audit.js
var PAGE10 = 50;
var MAX_EMPTY_PAGES = 10;
var FILTERS4 = ["target", "who", "since", "until"];
function Page16({ query, go: go3, session: session2 }) {
  if (!may(session2, "operate"))
    return html`<h1>${t("nav.audit")}</h1><${Empty} title=${t("audit.forbidden")} />`;
  return html`<${Entries} query=${query} go=${go3} />`;
}
async function firstWithEntries(query, signal) {
  let page = await get("api/audit", query, signal);
  for (let n = 1; n < MAX_EMPTY_PAGES && page.next_cursor && page.entries.length === 0; n++)
    page = await get("api/audit", { ...query, cursor: page.next_cursor }, signal);
  return page;
}
function Entries({ query, go: go3 }) {
  const target = query["target"] ?? "";
  const cursor = query["cursor"] ?? "";
  const wanted = Object.fromEntries(FILTERS4.flatMap((key) => query[key] ? [[key, query[key]]] : []));
  const isFiltered = Object.keys(wanted).length > 0;
  const { data, problem, reload } = useResource(
    (signal) => firstWithEntries({ ...wanted, cursor, limit: PAGE10 }, signal),
    [JSON.stringify(wanted), cursor],
    { everyMs: 6e4 }
  );
  const change2 = (key) => (text) => go3("audit", { ...wanted, [key]: text }, { replace: true });
  const entries = data?.entries ?? [];
  return html`<div class="page-head">
      <h1>${t("nav.audit")}</h1><${Button} onClick=${reload}>${t("audit.reload")}<//>
    </div>
    <form class="filters is-open" role="search" onSubmit=${(e2) => e2.preventDefault()}>
      <${FilterInput}
        label=${t("audit.target")} placeholder=${t("audit.target.hint")} maxlength="300" value=${target}
        onChange=${change2("target")} />
      <${FilterInput}
        label=${t("audit.who")} placeholder=${t("audit.who.hint")} maxlength="200" value=${query["who"] ?? ""}
        onChange=${change2("who")} />
      <${FilterInstant} label=${t("audit.since")} value=${query["since"] ?? ""} onChange=${change2("since")} />
      <${FilterInstant} label=${t("audit.until")} value=${query["until"] ?? ""} onChange=${change2("until")} />
      ${isFiltered && html`<div class="chips"><a href=${href("audit")}>${t("filter.clear")}</a></div>`}
    </form>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${data === null ? !problem && html`<${Loading} />` : entries.length === 0 ? html`<${Empty} title=${data.next_cursor ? t("jobs.empty.so_far") : isFiltered ? t("audit.none_such") : t("audit.none")} />` : html`<ol class="audit" aria-label=${t("nav.audit")}>
              ${entries.map(
    (entry2) => html`<li key=${entry2.id} class="card entry">
                    <p class="row entry-head">
                      <span class="entry-what">
                        <strong title=${visible(entry2.action)}>
                          ${tOr(`act.${entry2.action}`, visible(entry2.action))}
                        </strong> <a
                          class="entry-target" href=${href("audit", { ...wanted, target: entry2.target })}
                          title=${`${t("audit.only")}
${visible(entry2.target)}`}>
                          ${visible(whoText(entry2.target))}
                        </a>
                      </span> <span class="muted">
                        ${t("audit.by")} <a
                          href=${href("audit", { ...wanted, who: entry2.who })}
                          title=${`${t("audit.only_who")}
${visible(entry2.who)}`}>
                          ${visible(whoText(entry2.who))}
                        </a>
                      </span>
                      ${entry2.times > 1 && html` <span class="muted">${t("audit.times", { n: entry2.times })}</span>`}
                      <span class="entry-at muted"><${Time} at=${entry2.at} isPast /></span>
                    </p>
                    <${ChangedValue} entry=${entry2} /><${Difference} ...${changeOf(entry2)} />
                  </li>`
  )}
            </ol>`}
    <${Pager}
      hasNext=${Boolean(data?.next_cursor)} hasBefore=${cursor !== ""}
      onNext=${() => go3("audit", { ...wanted, cursor: data?.next_cursor })}
      onFirst=${() => go3("audit", wanted)} />`;
}
var changeOf = ({ action, before, after }) => action.endsWith(".ended") && isMap(before) && isMap(after) ? { before: null, after: { ...before, ...after } } : { before, after };

// operations/pages/settings.js
var SOURCES2 = (
  /** @type {const} */
  {
    default: "off",
    configured: "info",
    runtime: "warn",
    installation: "info",
    namespace: "warn"
  }
);
var isOfNamespace = namespace !== "" && namespace !== DEFAULT;
var sourceOf = ({ source: source2 }) => isOfNamespace && (source2 === "configured" || source2 === "runtime") ? "installation" : source2;
function Page17({ query, go: go3, session: session2 }) {
  const { data, problem, reload } = useResource((signal) => get("api/settings", {}, signal), [], {
    events: ["settings"],
    leastMs: 1e3,
    everyMs: 15e3
  });
  const [editing, setEditing] = E2(
    /** @type {SettingView | null} */
    null
  );
  const q3 = (query["q"] ?? "").toLowerCase();
  const isOnlyRuntime = query["runtime"] === "1";
  const all = data?.settings ?? [];
  const shown2 = all.filter(
    (one) => (!q3 || `${one.key} ${labelOf7(one)} ${effectOf(one)}`.toLowerCase().includes(q3)) && (!isOnlyRuntime || one.change_scope !== null)
  );
  const groups = [...new Set(shown2.map((one) => one.group))];
  const filter = (more) => go3("settings", { ...query, ...more }, { replace: true });
  return html`<div class="page-head"><h1>${t("nav.settings")}</h1></div>
    ${isOfNamespace && html`<p class="muted">
          ${t("settings.of_namespace", { name: namespace })} <a href=${ofInstallation("#/settings")}>${t("settings.of_installation")}</a>
        </p>`}
    <form class="filters" role="search" onSubmit=${(e2) => e2.preventDefault()}>
      <${FilterInput}
        label=${t("settings.find")} maxlength="100" value=${query["q"] ?? ""}
        onChange=${(q4) => filter({ q: q4 })} />
      <label class="check">
        <input
          type="checkbox" checked=${isOnlyRuntime}
          onChange=${(e2) => filter({ runtime: e2.target.checked ? "1" : "" })} /> ${t(
    isOfNamespace ? "settings.only_own" : "settings.only_runtime"
  )}
      </label>
    </form>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${data === null ? !problem && html`<${Loading} />` : shown2.length === 0 ? html`<${Empty} title=${t("settings.none_such")} />` : groups.map(
    (group) => html`<section key=${group} class="after">
                    <h2>${tOr(`settings.group.${group}`, visible(group))}</h2>
                    <${Table}
                      caption=${tOr(`settings.group.${group}`, visible(group))} rowKey=${keyOf3}
                      rowClass=${() => "setting"} rows=${shown2.filter((one) => one.group === group)}
                      columns=${columns2(session2, setEditing)} />
                  </section>`
  )}
    ${editing && html`<${Edit} key=${editing.key} setting=${editing} onClose=${() => setEditing(null)} onDone=${reload} />`}`;
}
var labelOf7 = (setting) => tOr(`settings.label.${setting.key}`, visible(setting.label));
var effectOf = (setting) => tOr(`settings.effect.${setting.key}`, setting.effect);
var keyOf3 = (setting) => setting.key;
function columns2(session2, onEdit) {
  return [
    {
      key: "setting",
      label: t("settings.setting"),
      render: (one) => html`<strong>${labelOf7(one)}</strong> <code class="small muted">${visible(one.key)}</code>
          <p class="muted small"><${Marked} text=${effectOf(one)} /></p>`
    },
    {
      key: "value",
      label: t("settings.value"),
      render: (one) => html`<span class="setting-value"><${Setting} setting=${one} /></span><br />
          <${Badge} kind=${SOURCES2[sourceOf(one)] ?? "off"}>
            ${tOr(`settings.source.${sourceOf(one)}`, visible(sourceOf(one)))}
          <//>`
    },
    {
      key: "default",
      label: t("settings.default.column"),
      priority: 2,
      render: (one) => html`<span class="muted num">${one.is_secret ? "–" : valueText(one, one.default)}</span>
          ${rangeText(one) && html`<br /><span class="muted small num">${rangeText(one)}</span>`}`
    },
    {
      key: "act",
      label: t("job.actions"),
      align: "end",
      render: (one) => {
        if (!one.is_runtime) return html`<span class="muted small">${t("settings.at_start")}</span>`;
        if (one.change_scope === null) return html`<span class="muted small">${t("settings.shared")}</span>`;
        if (may(session2, one.change_scope))
          return html`<${Button}
              opensDialog class="small" aria-label=${t("settings.change_one", { name: labelOf7(one) })}
              onClick=${() => onEdit(one)}>
              ${t("settings.change")}
            <//>`;
        return one.change_scope === "admin" ? html`<span class="muted small">${t("settings.admin_only")}</span>` : null;
      }
    }
  ];
}
function valueText(setting, value) {
  if (value === null || value === void 0 || Array.isArray(value) && value.length === 0) return t("none");
  if (Array.isArray(value)) return visible(value.join(", "));
  if (typeof value === "boolean") return t(value ? "yes" : "no");
  if (typeof value === "number" || typeof value === "bigint") {
    const ms4 = setting.unit === "ms" ? Number(value) : setting.unit === "s" ? Number(value) * 1e3 : null;
    if (ms4 !== null) return durationText(ms4);
    if (setting.unit === "bytes") return bytesText(Number(value));
    return number(value, { maximumFractionDigits: 6 });
  }
  return visible(String(value));
}
function rangeText(setting) {
  const { minimum, maximum } = setting;
  if (minimum === null && maximum === null) return "";
  const text = (value) => valueText(setting, value);
  if (maximum === null)
    return Number(minimum) === 0 ? "" : t("settings.range.least", { least: text(minimum) });
  const most = text(maximum);
  if (minimum === null) return t("settings.range.most", { most });
  const least = Number(minimum) === 0 ? number(0) : text(minimum);
  return t("settings.range.between", { least, most });
}
function Setting({ setting }) {
  if (setting.is_secret || setting.is_hidden) return html`<span class="muted">${t("settings.secret")}</span>`;
  return html`<strong class="num">${valueText(setting, setting.value)}</strong>`;
}
var valuesOf6 = ({ type, value }) => ({
  value: type === "boolean" ? value ? "yes" : "" : type === "list" ? (
    /** @type {string[]} */
    (value ?? []).join("\n")
  ) : String(value ?? "")
});
function sentValue(setting, text) {
  if (setting.type === "boolean") return text === "yes";
  if (setting.type === "integer" || setting.type === "number") return text === "" ? null : Number(text);
  return setting.type === "list" ? text.split(/\s+/).filter(Boolean) : text;
}
function Edit({ setting, onClose, onDone }) {
  const form = useForm(setting, valuesOf6);
  const reread = async () => (await get("api/settings")).settings.find((one) => one.key === setting.key) ?? setting;
  const send = async (value) => {
    await patch("api/settings", { [setting.key]: value });
    await onDone();
    return t("settings.done", { name: labelOf7(setting) });
  };
  const save = async (values2, base) => {
    if (toJson((await reread()).value) !== toJson(base.value))
      throw new Problem(412, { title: t("form.conflict") });
    return send(sentValue(setting, values2["value"] ?? ""));
  };
  const reset = async () => {
    const done = await form.run(() => send(null));
    if (typeof done !== "string") return;
    toast(done);
    onClose();
  };
  const isChanged = setting.source === (isOfNamespace ? "namespace" : "runtime");
  const resetText = isOfNamespace ? t("settings.reset_to", { value: valueText(setting, setting.reset_value) }) : t("settings.reset");
  const unit = setting.unit ? ` (${tOr(`unit.${setting.unit}`, visible(setting.unit))})` : "";
  const common = {
    form,
    name: "value",
    path: setting.key,
    label: `${visible(setting.key)}${unit}`,
    hint: setting.type === "list" ? t("settings.list.hint") : rangeText(setting)
  };
  const control = () => {
    switch (setting.type) {
      case "boolean":
        return html`<${Field} label=${common.label} problem=${form.problem} path=${setting.key}>
            ${(a2) => html`<input ...${a2} ...${form.check("value")} />`}
          <//>`;
      case "choice":
        return html`<${FormField} ...${common} as="select">
            ${(setting.choices ?? []).map(
          (choice) => html`<option key=${choice} value=${choice}>${visible(choice)}</option>`
        )}
          <//>`;
      case "list":
        return html`<${FormField} ...${common} as="textarea" class="short" spellcheck=${false} />`;
      case "text":
        return html`<${FormField} ...${common} type="text" maxlength="2000" spellcheck=${false} />`;
      default:
        return html`<${FormField} ...${common} type="number" step=${setting.type === "integer" ? "1" : "any"} />`;
    }
  };
  return html`<${FormDialog} title=${labelOf7(setting)} form=${form} onClose=${onClose} onSave=${save} reread=${reread} labelOf=${() => labelOf7(setting)}
      more=${isChanged && html`<${Button} disabled=${form.isBusy} onClick=${reset}>${resetText}<//>`}>
    <p class="muted"><${Marked} text=${effectOf(setting)} /></p>${control()}<//>`;
}

// identity/access_dialogs.js
var SCOPES = ["push", "work", "read", "operate", "admin"];
var ROLES = ["viewer", "operator", "admin"];
var ROLES_WITH_NAMESPACES = ["none", ...ROLES];
var DAY_S2 = 86400;
var LIVES_DAYS = ["", "30", "90", "365"];
var rolesText = (roles) => Object.entries(roles).map(([name, role]) => `${name}=${role}`).join(" ");
var rolesOf = (text) => Object.fromEntries(
  text.split(/[\s,]+/).filter(Boolean).map((entry2) => {
    const [name = "", role = ""] = entry2.split("=");
    return [name, role];
  })
);
function RoleFields({ form, isFirst = false, hasNamespaces }) {
  const roles = isFirst ? ["admin"] : hasNamespaces ? ROLES_WITH_NAMESPACES : ROLES;
  return html`<${FormField}
      form=${form} name="role" as="select" label=${t("access.role")} hint=${isFirst && t("access.user.first")}>
      ${roles.map((role) => html`<option key=${role} value=${role}>${t(`access.role.${role}`)}</option>`)}
    <//>
    ${hasNamespaces && !isFirst && html`<${FormField}
          form=${form} name="namespaces" label=${t("access.roles")} hint=${t("access.roles.hint")}
          maxlength="2000" spellcheck=${false} autocapitalize="none" />`}`;
}
function Secret({ token, text, onClose }) {
  return html`<${Dialog} title=${text} onClose=${onClose}>
      <p>${t("access.once")}</p><${Code} text=${token.token} label=${t("login.token")} />
      <footer><${Button} kind="primary" onClick=${onClose}>${t("close")}<//></footer>
    <//>`;
}
function NewToken({ onClose, onDone }) {
  const [made, setMade] = E2(
    /** @type {NewTokenView | null} */
    null
  );
  const form = useForm(null, () => ({
    label: "",
    names: "",
    namespaces: "",
    life: "",
    ...Object.fromEntries(SCOPES.map((scope) => [scope, scope === "push" ? "yes" : ""]))
  }));
  const save = async (values2) => {
    const words = (field) => (values2[field] ?? "").split(/[\s,]+/).filter(Boolean);
    const names = words("names");
    const namespaces = words("namespaces");
    setMade(
      await post("api/tokens", {
        label: values2["label"],
        scopes: SCOPES.filter((scope) => values2[scope]),
        ...values2["life"] && { ttl_s: Number(values2["life"]) * DAY_S2 },
        ...names.length > 0 && { names },
        ...namespaces.length > 0 && { namespaces }
      })
    );
    await onDone();
    return t("access.token.done", { label: visible(values2["label"] ?? "") });
  };
  if (made) return html`<${Secret} token=${made} text=${t("access.token.made")} onClose=${onClose} />`;
  return html`<${FormDialog}
      title=${t("access.token.new")} form=${form} onClose=${onClose} onSave=${save} isNew staysOpen
      saveLabel=${t("access.create")}>
      <${FormField}
        form=${form} name="label" label=${t("access.label")} hint=${t("access.label.hint")} maxlength="100" />
      <fieldset class="plain-set">
        <legend>${t("access.scopes")}</legend>
        ${SCOPES.map(
    (scope) => html`<${FormCheck} key=${scope} form=${form} name=${scope}>
                <span>
                  ${t(`access.scope.${scope}`)} <span class="muted">${t(`access.scope.${scope}.text`)}</span>
                </span>
              <//>`
  )}
      </fieldset>
      <${FormField}
        form=${form} name="names" label=${t("access.names")} hint=${t("access.names.hint")} maxlength="1000"
        spellcheck=${false} />
      ${!namespace && html`<${FormField}
            form=${form} name="namespaces" label=${t("nav.namespaces")} hint=${t("access.namespaces.hint")}
            maxlength="1000" spellcheck=${false} autocapitalize="none" />`}
      <${FormField} form=${form} name="life" path="ttl_s" as="select" label=${t("access.life")}>
        ${LIVES_DAYS.map(
    (days) => html`<option key=${days} value=${days}>${days ? t("access.days", { count: Number(days) }) : t("access.no_end")}</option>`
  )}
      <//>
    <//>`;
}
function RotateToken({ token, onClose, onDone }) {
  const [made, setMade] = E2(
    /** @type {NewTokenView | null} */
    null
  );
  const form = useForm(null, () => ({ overlap: durationText(DAY_S2 * 1e3) }));
  const save = async (values2) => {
    const text = values2["overlap"] ?? "";
    const end = endOf(text);
    if (text.trim() && end === null) throw unreadable("overlap_s");
    const overlap_s = end === null ? 0 : Math.ceil((end - nowMs()) / 1e3);
    setMade(await post(`api/tokens/${encodeURIComponent(token.id)}/rotate`, { overlap_s }));
    await onDone();
    return t("access.token.done", { label: visible(token.label) });
  };
  if (made) return html`<${Secret} token=${made} text=${t("access.token.made")} onClose=${onClose} />`;
  return html`<${FormDialog} title=${t("access.rotate.title")} form=${form} onClose=${onClose} onSave=${save} isNew staysOpen saveLabel=${t("access.rotate")}>
    <p><strong><${Text} value=${token.label} /></strong></p><p>${t("access.rotate.text")}</p>
    <${DurationField} form=${form} name="overlap" path="overlap_s" label=${t("access.overlap")} empty=${t("access.overlap.none")} /><//>`;
}
function NewUser({ isFirst, hasNamespaces, onClose, onDone }) {
  const role = isFirst ? "admin" : "viewer";
  const form = useForm(null, () => ({ name: "", role, namespaces: "", password: "" }));
  const save = async (values2) => {
    await post("api/users", { ...values2, namespaces: rolesOf(values2["namespaces"] ?? "") });
    await onDone();
    return t("access.user.made", { name: visible(values2["name"] ?? "") });
  };
  return html`<${FormDialog}
      title=${t("access.user.new")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("access.add")}>
      <${FormField}
        form=${form} name="name" label=${t("login.user")} hint=${t("access.user.hint")} maxlength="64"
        autocapitalize="none" spellcheck=${false} />
      <${RoleFields} form=${form} isFirst=${isFirst} hasNamespaces=${hasNamespaces} />
      <${FormField}
        form=${form} name="password" type="password" label=${t("login.password")}
        hint=${t("access.password.hint")} maxlength="200" autocomplete="new-password" />
    <//>`;
}
function ChangeRole({ user, path, isMe, hasNamespaces, onClose, onDone }) {
  const form = useForm(user, ({ role, namespaces }) => ({ role, namespaces: rolesText(namespaces) }));
  const save = async ({ role, namespaces }) => {
    await patch(path, { role, namespaces: rolesOf(namespaces ?? "") });
    await onDone();
    return t("access.role.done", { name: visible(user.name), role: t(`access.role.${role}`) });
  };
  return html`<${FormDialog} title=${t("access.role.title")} form=${form} onClose=${onClose} onSave=${save}>
    <p><strong><${Text} value=${user.name} /></strong></p><p>${t(isMe ? "access.role.text.me" : "access.role.text")}</p>
    <${RoleFields} form=${form} hasNamespaces=${hasNamespaces} /><//>`;
}
function NewPassword({ user, path, onClose }) {
  const form = useForm(null, () => ({ password: "" }));
  const save = async ({ password }) => {
    await patch(path, { password });
    return t("access.password.done");
  };
  return html`<${FormDialog}
      title=${t("access.password.title")} form=${form} onClose=${onClose} onSave=${save} isNew>
      <p><strong><${Text} value=${user.name} /></strong></p><p>${t("access.password.text")}</p>
      <${FormField}
        form=${form} name="password" type="password" label=${t("login.password")}
        hint=${t("access.password.hint")} maxlength="200" autocomplete="new-password" />
    <//>`;
}

// identity/pages/access.js
function Page18({ session: session2, onSession }) {
  if (!may(session2, "admin"))
    return html`<h1>${t("nav.access")}</h1><${Empty} title=${t("access.forbidden")} />`;
  return html`<div class="page-head"><h1>${t("nav.access")}</h1></div><${Tokens} />${namespace ? html`<p class="muted after">${t("namespaces.of_installation")} <a href=${ofInstallation("#/access")}>${t("access.users")}</a></p>` : html`<${Users} me=${session2.method === "session" ? session2.who : null} hasNamespaces=${session2.has_namespaces} onSession=${onSession} />`}`;
}
function Tokens() {
  const { data, problem, reload } = useResource((signal) => get("api/tokens", {}, signal), [], {
    everyMs: 3e4
  });
  const [asked, setAsked] = E2(
    /** @type {AskedOfTokens | null} */
    null
  );
  const tokens = data?.tokens ?? [];
  const close2 = () => setAsked(null);
  return html`<section aria-labelledby="tokens">
      <div class="page-head">
        <h2 id="tokens">${t("access.tokens")}</h2>
        <${Button} opensDialog onClick=${() => setAsked({ what: "create" })}>${t("access.token.new")}<//>
      </div>
      <p class="muted">${t("access.tokens.text")}</p><${ErrorBox} problem=${problem} onRetry=${reload} />
      ${data === null ? !problem && html`<${Loading} />` : html`<${Table}
              caption=${t("access.tokens")} rows=${tokens} rowKey=${(token) => token.id}
              empty=${html`<${Empty} title=${t("access.tokens.none")} curl="jqmaster tokens create operations --scope admin" />`}
              columns=${tokenColumns(tokens, setAsked)} />`}
      ${asked?.what === "create" && html`<${NewToken} onClose=${close2} onDone=${reload} />`}
      ${asked?.what === "rotate" && html`<${RotateToken} token=${asked.of} onClose=${close2} onDone=${reload} />`}
      ${asked?.what === "revoke" && html`<${Sure} title=${t("access.revoke.title")} verb=${t("access.revoke")} onClose=${close2} onConfirm=${async () => {
    await del(`api/tokens/${encodeURIComponent(asked.of.id)}`);
    toast(t("access.revoked"));
    await reload();
  }}><p><strong><${Text} value=${asked.of.label} /></strong></p><p>${t("access.revoke.text")}</p><//>`}
    </section>`;
}
function tokenColumns(tokens, onAsk) {
  const labels = new Map(tokens.map((token) => [`token:${token.id}`, token.label]));
  const at2 = (instant) => instant ? html`<${Time} at=${instant} />` : t("access.never");
  const namespaces = {
    key: "namespaces",
    label: t("nav.namespaces"),
    phone: "line",
    render: (token) => token.namespaces.includes("*") ? t("access.namespaces.all") : html`<${Text} value=${token.namespaces.join(", ")} max=${80} />`
  };
  return [
    {
      key: "label",
      label: t("access.label"),
      phone: "main",
      render: (token) => html`<${Text} value=${token.label} max=${60} />
          ${token.is_replaced && html` <${Badge} kind="off">${t("access.replaced")}<//>`}
          ${token.names?.length > 0 && html` <span class="muted small"><${Text} value=${token.names.join(", ")} max=${80} /></span>`}`
    },
    ...tokens.some((token) => !namespace && !token.namespaces.includes("*")) ? [namespaces] : [],
    {
      key: "scopes",
      label: t("access.scopes"),
      phone: "side",
      render: (token) => token.scopes.map(
        (scope) => html`<${Badge} kind=${scope === "admin" ? "warn" : "info"}>${tOr(`access.scope.${scope}`, visible(scope))}<//> `
      )
    },
    {
      key: "used",
      label: t("access.used"),
      phone: "line",
      align: "end",
      render: (token) => at2(token.last_used_at)
    },
    {
      key: "expires",
      label: t("access.expires"),
      align: "end",
      priority: 2,
      render: (token) => at2(token.expires_at)
    },
    {
      key: "created",
      label: t("job.created"),
      align: "end",
      priority: 3,
      render: (token) => html`<${Time} at=${token.created_at} /> <span class="muted">${visible(labels.get(token.created_by) ?? whoText(token.created_by))}</span>`
    },
    {
      key: "act",
      label: t("job.actions"),
      phone: "line",
      align: "end",
      render: (token) => html`<${TokenActions} token=${token} onAsk=${onAsk} />`
    }
  ];
}
function TokenActions({ token, onAsk }) {
  return html`<span class="row end-row">
      <${Button} opensDialog class="small" onClick=${() => onAsk({ what: "rotate", of: token })}>
        ${t("access.rotate")}
      <//>
      <${Button} opensDialog class="small" kind="danger" onClick=${() => onAsk({ what: "revoke", of: token })}>
        ${t("access.revoke")}
      <//>
    </span>`;
}
function Users({ me, hasNamespaces, onSession }) {
  const { data, problem, reload } = useResource((signal) => get("api/users", {}, signal), [], {
    everyMs: 3e4
  });
  const [asked, setAsked] = E2(
    /** @type {AskedOfUsers | null} */
    null
  );
  const users = data?.users ?? [];
  const close2 = () => setAsked(null);
  const path = (user) => `api/users/${encodeURIComponent(user.name)}`;
  const isMe = (user) => me === `user:${user.name}`;
  const added = async () => {
    if (users.length === 0) onSession(await fetchSession());
    else await reload();
  };
  return html`<section class="after" aria-labelledby="users">
      <div class="page-head">
        <h2 id="users">${t("access.users")}</h2>
        <${Button} opensDialog onClick=${() => setAsked({ what: "add" })}>${t("access.user.new")}<//>
      </div>
      <p class="muted">${t("access.users.text")}</p><${ErrorBox} problem=${problem} onRetry=${reload} />
      ${data === null ? !problem && html`<${Loading} />` : html`<${Table}
              caption=${t("access.users")} rows=${users} rowKey=${(user) => user.name}
              empty=${html`<${Empty} title=${t("access.users.none")}>${t("access.users.none.text")}<//>`}
              columns=${userColumns(isMe, setAsked)} />`}
      ${asked?.what === "add" && html`<${NewUser} hasNamespaces=${hasNamespaces} isFirst=${users.length === 0} onClose=${close2} onDone=${added} />`}
      ${asked?.what === "role" && html`<${ChangeRole}
            hasNamespaces=${hasNamespaces || Object.keys(asked.of.namespaces).length > 0} user=${asked.of}
            path=${path(asked.of)} isMe=${isMe(asked.of)} onClose=${close2} onDone=${reload} />`}
      ${asked?.what === "password" && html`<${NewPassword} user=${asked.of} path=${path(asked.of)} onClose=${close2} />`}
      ${asked?.what === "disable" && html`<${DisableUser} user=${asked.of} path=${path(asked.of)} isMe=${isMe(asked.of)} onClose=${close2} onDone=${reload} />`}
      ${asked?.what === "remove" && html`<${Sure} title=${t("access.remove.title")} verb=${t("access.remove")} onClose=${close2} onConfirm=${async () => {
    await call("DELETE", path(asked.of));
    toast(t("access.removed"));
    await reload();
  }}><p><strong><${Text} value=${asked.of.name} /></strong></p><p>${t("access.remove.text")}</p><//>`}
    </section>`;
}
var userColumns = (isMe, onAsk) => [
  {
    key: "name",
    label: t("login.user"),
    phone: "main",
    render: (user) => html`<${Text} value=${user.name} max=${64} />
        ${isMe(user) && html` <span class="muted">${t("access.you")}</span>`} ${user.is_disabled && html`<${Badge} kind="off">${t("access.disabled")}<//>`}`
  },
  {
    key: "role",
    label: t("access.role"),
    phone: "side",
    render: (user) => html`${t(`access.role.${user.role}`)}
        ${Object.entries(user.namespaces).map(
      ([name, role]) => html` <span class="muted small" key=${name}>${visible(name)}: ${t(`access.role.${role}`)}</span>`
    )} <${Button}
          opensDialog class="small" aria-label=${t("access.role_of", { name: visible(user.name) })}
          onClick=${() => onAsk({ what: "role", of: user })}>
          ${t("settings.change")}
        <//>`
  },
  {
    key: "login",
    label: t("access.last_login"),
    align: "end",
    priority: 2,
    render: (user) => user.last_login_at ? html`<${Time} at=${user.last_login_at} />` : t("access.never")
  },
  {
    key: "created",
    label: t("job.created"),
    align: "end",
    priority: 3,
    render: (user) => html`<${Time} at=${user.created_at} />`
  },
  {
    key: "act",
    label: t("job.actions"),
    phone: "line",
    align: "end",
    render: (user) => html`<${UserActions} user=${user} onAsk=${onAsk} />`
  }
];
function UserActions({ user, onAsk }) {
  return html`<span class="row end-row">
      <${Button} opensDialog class="small" onClick=${() => onAsk({ what: "password", of: user })}>
        ${t("login.password")}
      <//>
      <${Button} opensDialog class="small" onClick=${() => onAsk({ what: "disable", of: user })}>
        ${t(user.is_disabled ? "access.enable" : "access.disable")}
      <//>
      <${Button} opensDialog class="small" kind="danger" onClick=${() => onAsk({ what: "remove", of: user })}>
        ${t("access.remove")}
      <//>
    </span>`;
}
function DisableUser({ user, path, isMe, onClose, onDone }) {
  const { is_disabled: isDisabled } = user;
  const confirm = async () => {
    await patch(path, { is_disabled: !isDisabled });
    toast(t(isDisabled ? "access.enabled.done" : "access.disabled.done"));
    await onDone();
  };
  const text = isDisabled ? "access.enable.text" : isMe ? "access.disable.text.me" : "access.disable.text";
  return html`<${Sure}
      title=${t(isDisabled ? "access.enable.title" : "access.disable.title")}
      verb=${t(isDisabled ? "access.enable" : "access.disable")} onClose=${onClose} onConfirm=${confirm}>
      <p><strong><${Text} value=${user.name} /></strong> ${isMe && t("access.you")}</p><p>${t(text)}</p>
    <//>`;
}

// identity/pages/account.js
function Page19({ session: session2 }) {
  if (session2.method !== "session")
    return html`<h1>${t("nav.account")}</h1><${Empty} title=${t("account.no_login")} />`;
  return html`<div class="page-head"><h1>${t("nav.account")}</h1></div><p class="muted"><${Text} value=${whoText(session2.who ?? "")} max=${80} /></p>
    ${(session2.who ?? "").startsWith("user:") && html`<${Password} />`}<${Logins} />`;
}
function Password() {
  const form = useForm(null, () => ({ old_password: "", new_password: "" }));
  const submit = async (event) => {
    event.preventDefault();
    await form.run(async (values2) => {
      await post("api/session/password", values2);
      form.reopen(null);
      toast(t("account.password.done"));
    });
  };
  return html`<section aria-labelledby="password">
      <h2 id="password">${t("account.password")}</h2>
      <form onSubmit=${submit} class="stack narrow-form" novalidate>
        <${FormField}
          form=${form} name="old_password" label=${t("account.password.old")} type="password" maxlength="200"
          autocomplete="current-password" />
        <${FormField}
          form=${form} name="new_password" label=${t("account.password.new")}
          hint=${t("access.password.hint")} type="password" maxlength="200" autocomplete="new-password" />
        <p class="muted">${t("account.password.text")}</p><${ErrorBox} problem=${form.problem} />
        <p><button class="button primary" disabled=${form.isBusy}>${t("account.password.change")}</button></p>
      </form>
    </section>`;
}
function Logins() {
  const { data, problem, reload } = useResource((signal) => get("api/sessions", {}, signal), [], {
    everyMs: 3e4
  });
  const logins = data?.sessions ?? [];
  const end = (path) => attempt(async () => {
    await del(path);
    await reload();
  }, t("account.login.ended"));
  return html`<section class="after">
      <div class="page-head">
        <h2 id="logins">${t("account.logins")}</h2>
        ${logins.length > 1 && html`<${Button} kind="danger" onClick=${() => end("api/sessions")}>${t("account.login.end_others")}<//>`}
      </div>
      <${ErrorBox} problem=${problem} onRetry=${reload} />
      ${data === null ? !problem && html`<${Loading} />` : html`<${Table}
              caption=${t("account.logins")} rows=${logins}
              rowKey=${(login) => login.id} columns=${[
    {
      key: "address",
      label: t("account.login.address"),
      render: (login) => html`<${Text} value=${login.address || "–"} max=${60} /> ${login.is_current && html`<${Badge} kind="info">${t("account.login.current")}<//>`}`
    },
    {
      key: "opened",
      label: t("account.login.opened"),
      align: "end",
      priority: 2,
      render: (login) => login.opened_at ? html`<${Time} at=${login.opened_at} />` : "–"
    },
    {
      key: "used",
      label: t("access.used"),
      align: "end",
      render: (login) => html`<${Time} at=${login.last_used_at} />`
    },
    {
      key: "act",
      label: t("job.actions"),
      align: "end",
      render: (login) => !login.is_current && html`<${Button}
                        class="small" kind="danger"
                        onClick=${() => end(`api/sessions/${encodeURIComponent(login.id)}`)}>
                        ${t("account.login.end")}
                      <//>`
    }
  ]} />`}
    </section>`;
}

// challenges/pages/challenges.js
var PAGE11 = 50;
var MAX_PAGES3 = 10;
var FILTERS5 = ["state", "name"];
var keyOf4 = (one) => `${one.job_id} ${one.request}`;
async function load3(query, signal) {
  const challenges = [];
  let cursor = query["cursor"] ?? null;
  for (let page = 0; page < MAX_PAGES3 && challenges.length < PAGE11; page += 1) {
    const found = await get("api/challenges", { ...query, cursor, limit: PAGE11 - challenges.length }, signal);
    challenges.push(...found.challenges);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { challenges, next_cursor: cursor };
}
function Page20({ query, go: go3, session: session2 }) {
  const hold = useHold();
  const wanted = Object.fromEntries(FILTERS5.flatMap((key) => query[key] ? [[key, query[key]]] : []));
  const of2 = JSON.stringify([wanted, query["cursor"]]);
  const found = useResource(
    async (signal) => ({ ...await load3({ ...wanted, cursor: query["cursor"] }, signal), of: of2 }),
    [of2],
    { events: ["jobs"], leastMs: 1e3, everyMs: 5e3 }
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.challenges ?? [],
    keyOf4,
    hold.isHeld,
    found.data?.of ?? ""
  );
  const isFiltered = Object.keys(wanted).length > 0;
  const filter = (key, value) => go3("challenges", { ...wanted, [key]: value }, { replace: true });
  const columns3 = columnsOf8(may(session2, "operate"), found.reload);
  return html`<div class="page-head"><h1>${t("nav.challenges")}</h1></div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(e2) => e2.preventDefault()}>
      <${Field} label=${t("job.state")}>
        ${(a2) => html`<select
              ...${a2} value=${query["state"] ?? ""}
              onChange=${(e2) => filter("state", e2.target.value)}>
              <option value="">${t("challenges.any")}</option>
              ${CHALLENGE_STATES.map(
    (state) => html`<option key=${state} value=${state}>${t(`challenges.state.${state}`)}</option>`
  )}
            </select>`}
      <//>
      <${FilterInput}
        label=${t("challenges.name")} value=${query["name"] ?? ""}
        onChange=${(text) => filter("name", text)} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${!found.data ? html`<${Loading} isLoading=${!found.problem} />` : html`<div ...${hold.bind}>
            <${NewRows} count=${newCount} onShow=${showNew} />
            <${Table}
              isFixed caption=${t("nav.challenges")} rows=${rows} rowKey=${keyOf4}
              label=${(one) => one.name}
              onOpen=${(one) => go3("job", { id: one.job_id })}
              columns=${columns3.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<div class="card">
                  <${Empty} title=${t(isFiltered ? "challenges.empty.filtered" : "challenges.empty")}>
                    ${isFiltered && html`<p><a href=${href("challenges")}>${t("filter.clear")}</a></p>`}
                  <//>
                </div>`} />
          </div>`}
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go3("challenges", { ...wanted, cursor: found.data?.next_cursor })}
      onFirst=${() => go3("challenges", wanted)} />`;
}
var columnsOf8 = (mayAnswer, onDone) => [
  {
    key: "opened",
    label: "challenges.opened_at",
    width: 7,
    priority: 2,
    render: (one) => html`<${Time} at=${one.opened_at} />`
  },
  {
    key: "state",
    label: "job.state",
    width: 7,
    phone: "line",
    render: (one) => html`<${ChallengeState} state=${one.state} />`
  },
  {
    key: "name",
    label: "challenges.name",
    width: 10,
    phone: "main",
    render: (one) => html`<a href=${href("job", { id: one.job_id })} title=${visible(one.name)}>${visible(one.name)}</a>`
  },
  {
    key: "asks",
    label: "challenges.asks",
    priority: 2,
    phone: "line",
    render: (one) => {
      const about = visible(String(one.code ?? one.error ?? subjectOf2(one)));
      return html`<span title=${about}>${about.slice(0, 300)}</span>`;
    }
  },
  {
    key: "who",
    label: "challenges.who",
    width: 12,
    priority: 3,
    render: (one) => html`<span title=${audienceText(one)}>${audienceText(one)}</span>`
  },
  {
    key: "callbacks",
    label: "challenges.callbacks",
    width: 6,
    priority: 4,
    render: (one) => html`<span class="num">${number(one.received)} / ${number(one.expect)}</span>`
  },
  {
    key: "due",
    label: "challenges.due_at",
    width: 6.5,
    priority: 2,
    render: (one) => html`<${Time} at=${one.due_at} />`
  },
  {
    key: "answer",
    label: "challenges.answer",
    width: 7,
    phone: "side",
    render: (one) => mayAnswer ? html`<${AnswerButton} one=${one} onDone=${onDone} />` : ""
  }
];

// notices/dialogs.js
var HOUR_MS2 = 36e5;
var pathOfNotice = (name) => (
  /** @type {const} */
  `api/notices/${encodeURIComponent(name)}`
);
var askAboutNotice = () => {
};
function NoticeDialogs() {
  const [asked, setAsked] = E2(
    /** @type {Asked | null} */
    null
  );
  askAboutNotice = setAsked;
  if (!asked) return null;
  const props = { ...asked, onClose: () => setAsked(null) };
  return asked.what === "mute" ? html`<${MuteNotice} ...${props} />` : html`<${DeleteNotice} ...${props} />`;
}
function MuteNotice({ name, onClose, onDone }) {
  const form = useForm(null, () => ({ muted: durationText(HOUR_MS2) }));
  const save = async ({ muted = "" }) => {
    const end = endOf(muted);
    if (end === null) throw unreadable("until");
    const until = new Date(end).toISOString();
    await post(`${pathOfNotice(name)}/mute`, { until });
    await onDone();
    return t("notices.muted.done", { name: visible(name) });
  };
  return html`<${FormDialog} title=${t("notices.mute.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("notices.mute")}>
    <p><strong><${Text} value=${name} max=${100} /></strong></p><p class="muted">${t("notices.mute.text")}</p>
    <${DurationField} form=${form} name="muted" label=${t("notices.mute.for")} path="until" /><//>`;
}
function DeleteNotice({ name, onClose }) {
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const act = async () => {
    try {
      await del(pathOfNotice(name));
      toast(t("notices.deleted", { name: visible(name) }));
      onClose();
      go("notices");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("notices.delete.title")} onClose=${onClose}>
      <p>${t("notices.delete.text", { name: visible(name) })}</p><${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" onClick=${act}>${t("action.delete")}<//>
      </footer>
    <//>`;
}

// notices/conditions.js
var WHENS = [
  "job_failed",
  "new_failure_group",
  "failure_reopened",
  "challenge_waiting",
  "challenge_expired",
  "definition_missed",
  "worker_lost",
  "leader_changed",
  "backlog_age",
  "constraint_saturated",
  "store_unhealthy",
  "calendar_ends",
  "log_archive_behind",
  "duty_failing",
  "quota_nearly_used",
  "store_down",
  "namespace_down",
  "move_failed"
];
var OF_INSTALLATION2 = ["store_down", "namespace_down", "move_failed"];

// notices/editor.js
var GROUPS2 = ["none", "name", "failure_group"];
var MATCHINGS = ["all", "some"];
var FIELDS5 = ["name", "tags", "priority"];
var BLANK_MATCHER = '{"field": "name", "op": "eq", "value": ""}';
var linesOf2 = (notice, channel) => (notice?.to ?? []).flatMap((to2) => to2[channel] ?? []);
var valuesOf7 = (notice) => ({
  name: notice?.name ?? "",
  when: notice?.when ?? "job_failed",
  threshold: String(notice?.threshold ?? ""),
  mail: linesOf2(notice, "mail").join("\n"),
  slack: linesOf2(notice, "slack").join("\n"),
  webhook: linesOf2(notice, "webhook").join("\n"),
  secret: "",
  matching: notice?.matcher ? "some" : "all",
  matcher: notice?.matcher ? toJson(notice.matcher, 2) : BLANK_MATCHER,
  group_by: notice?.group_by ?? "none",
  at_most_every_s: String(notice?.at_most_every_s ?? 300),
  description: notice?.description ?? ""
});
var split = (text) => (text ?? "").split(/\s+/).filter(Boolean);
function matcherIn(values2) {
  if (values2["matching"] !== "some") return null;
  try {
    return parseExact(values2["matcher"] ?? "");
  } catch {
    const msg = t("notices.matcher.bad");
    throw new Problem(422, { title: msg, errors: [{ loc: ["matcher"], msg }] });
  }
}
function documentOf3(values2, base) {
  const mail = split(values2["mail"]);
  return {
    when: values2["when"],
    threshold: values2["threshold"] ? Number(values2["threshold"]) : null,
    matcher: matcherIn(values2),
    to: [
      ...mail.length > 0 ? [{ mail }] : [],
      ...split(values2["slack"]).map((slack) => ({ slack })),
      ...split(values2["webhook"]).map((webhook) => ({
        webhook,
        ...values2["secret"] && { secret: values2["secret"] }
      }))
    ],
    group_by: values2["group_by"],
    at_most_every_s: Number(values2["at_most_every_s"]),
    muted_until: base?.muted_until ?? null,
    description: values2["description"]
  };
}
async function readNames(add, signal) {
  const { names } = await get("api/names", { limit: 50 }, signal);
  for (const { name } of names) add("name", name);
}
var OFFERED = namespace && namespace !== DEFAULT ? WHENS.filter((one) => !OF_INSTALLATION2.includes(one)) : WHENS;
function NoticeEditor({ notice, onClose, onDone }) {
  const form = useForm(notice, valuesOf7);
  const save = async (values2, base) => {
    const name = notice ? notice.name : values2["name"] ?? "";
    await put(pathOfNotice(name), documentOf3(values2, base), {
      ...base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }
    });
    await onDone(name);
    return t("notices.saved", { name: visible(name) });
  };
  const suggestions = useSuggestions(FIELDS5, readNames, []);
  const label = (name) => t(`notices.form.${name}`);
  return html`<${FormDialog}
      isWide title=${t(notice ? "notices.edit.title" : "notices.make")} form=${form} onClose=${onClose}
      onSave=${save} isNew=${!notice} reread=${() => get(pathOfNotice(notice?.name ?? ""))} labelOf=${label}>
      ${!notice && html`<${FormField} form=${form} name="name" label=${label("name")} required maxlength="50" />`}
      <div class="form-grid">
        <${FormField} form=${form} name="when" label=${label("when")} as="select">
          ${OFFERED.map((one) => html`<option key=${one} value=${one}>${t(`notices.when.${one}`)}</option>`)}
        <//>
        <${FormField} form=${form} name="matching" label=${label("matching")} as="select">
          ${MATCHINGS.map(
    (one) => html`<option key=${one} value=${one}>${t(`notices.matching.${one}`)}</option>`
  )}
        <//>
        <${FormField}
          form=${form} name="threshold" label=${label("threshold")} hint=${t("notices.threshold.hint")}
          type="number" min="1" step="1" />
        <${FormField} form=${form} name="group_by" label=${label("group_by")} as="select">
          ${GROUPS2.map(
    (one) => html`<option key=${one} value=${one}>${t(`notices.group_by.${one}`)}</option>`
  )}
        <//>
        <${FormField}
          form=${form} name="at_most_every_s" label=${label("at_most_every_s")} type="number" min="10"
          step="1" required />
      </div>
      ${form.values["matching"] === "some" && html`<${MatcherField} form=${form} label=${label("matcher")} suggestions=${suggestions} hint=${t("notices.rule.hint")} />`}
      <${FormField}
        form=${form} name="mail" label=${label("mail")} hint=${t("notices.mail.hint")} as="textarea" rows="2"
        path="to" />
      <${FormField}
        form=${form} name="slack" label=${label("slack")} hint=${t("notices.url.hint")} as="textarea" rows="2" />
      <div class="form-grid">
        <${FormField}
          form=${form} name="webhook" label=${label("webhook")} hint=${t("notices.url.hint")} as="textarea"
          rows="2" />
        <${FormField}
          form=${form} name="secret" label=${label("secret")} hint=${t("notices.secret.hint")}
          spellcheck="false" />
      </div>
      <${FormField} form=${form} name="description" label=${label("description")} maxlength="500" />
    <//>`;
}

// notices/pages/notices.js
var EXAMPLE6 = { when: "job_failed", to: [{ mail: ["ops@shop.example"] }], threshold: 10 };
var READ4 = { events: ["jobs"], leastMs: 2e3, everyMs: 5e3 };
function Page21({ query, session: session2 }) {
  return html`${query["name"] ? html`<${One8} key=${query["name"]} name=${query["name"]} session=${session2} />` : html`<${List9} session=${session2} />`}<${NoticeDialogs} />`;
}
var isMuted = (one) => one.muted_until !== null && Date.parse(one.muted_until) > nowMs();
var toText = (one) => one.to.map((to2) => to2.mail ? to2.mail.join(", ") : to2.webhook ?? to2.slack ?? "").join(", ");
function List9({ session: session2 }) {
  const found = useResource((signal) => get("api/notices", {}, signal), [], READ4);
  return html`<${NamedList}
      page="notices" session=${session2} found=${found} rows=${found.data?.notices} columns=${COLUMNS7}
      example=${curl(session2, "PUT", "api/notices/failures", { body: EXAMPLE6 })}
      editor=${(onClose, onDone) => html`<${NoticeEditor} notice=${null} onClose=${onClose} onDone=${onDone} />`} />`;
}
var COLUMNS7 = [
  {
    key: "name",
    label: "notices.name",
    phone: "main",
    render: (one) => html`<a href=${href("notices", { name: one.name })} title=${visible(one.name)}>${visible(one.name)}</a>`
  },
  {
    key: "when",
    label: "notices.when",
    phone: "line",
    render: (one) => tOr(`notices.when.${one.when}`, visible(one.when))
  },
  {
    key: "to",
    label: "notices.to",
    priority: 2,
    render: (one) => html`<${Text} value=${toText(one)} max=${120} />`
  },
  {
    key: "state",
    label: "job.state",
    width: 9,
    phone: "side",
    render: (one) => html`<${Condition3} one=${one} />`
  },
  {
    key: "last",
    label: "notices.last_told",
    width: 8,
    priority: 2,
    render: (one) => html`<${Time} at=${one.recent[0]?.at} />`
  }
];
function Condition3({ one }) {
  if (isMuted(one)) return html`<${Badge} kind="off">${t("notices.muted")}<//>`;
  const open = one.incidents.filter((incident) => !incident.is_over);
  if (open.length === 0) return html`<${Badge} kind="ok">${t("notices.quiet")}<//>`;
  const isKnown = open.every((incident) => incident.acknowledged_by !== null);
  return html`<${Badge} kind=${isKnown ? "warn" : "bad"}>${t(isKnown ? "notices.acknowledged" : "notices.open")}<//>`;
}
function One8({ name, session: session2 }) {
  const path = pathOfNotice(name);
  const [isEditing, setEditing] = E2(false);
  const found = useResource((signal) => get(path, {}, signal), [name], READ4);
  useTitle(name);
  const one = found.data;
  if (!one)
    return html`<${Absent} page="notices" title=${t("notices.unknown", { name: visible(name) })} found=${found} />`;
  const again = found.reload;
  const test = () => attempt(() => post(`${path}/test`), t("notices.tested", { name: visible(name) })).then(again);
  const unmute = () => attempt(() => post(`${path}/mute`, { until: null }), t("notices.unmuted", { name: visible(name) })).then(
    again
  );
  return html`<p class="crumbs"><a href=${href("notices")}>${t("nav.notices")}</a></p>
    <div class="page-head job-head">
      <h1><${Text} value=${name} max=${60} /></h1><${Condition3} one=${one} />
    </div>
    <${ErrorBox} problem=${found.problem} />
    ${may(session2, "operate") && html`<div class="row actions" role="group" aria-label=${t("notices.actions")}>
          <${Button} kind="primary" onClick=${test}>${t("notices.test")}<//>
          ${isMuted(one) ? html`<${Button} onClick=${unmute}>${t("notices.unmute")}<//>` : html`<${Button} opensDialog onClick=${() => askAboutNotice({ what: "mute", name, onDone: again })}>${t("notices.mute")}<//>`}
          <${Button} opensDialog onClick=${() => setEditing(true)}>${t("definitions.edit")}<//>
          <${Button}
            opensDialog kind="danger" onClick=${() => askAboutNotice({ what: "delete", name, onDone: again })}>
            ${t("action.delete")}
          <//>
        </div>`}
    <div class="job-grid">
      <div class="stack">
        <${Incidents} one=${one} path=${path} mayOperate=${may(session2, "operate")} onDone=${again} />
        <${Messages} one=${one} />
      </div>
      <div class="stack"><${Facts8} one=${one} /></div>
    </div>
    ${isEditing && html`<${NoticeEditor} notice=${one} onClose=${() => setEditing(false)} onDone=${again} />`}`;
}
function Incidents({ one, path, mayOperate, onDone }) {
  const acknowledge = (key) => attempt(() => post(`${path}/acknowledge`, { key }), t("notices.acknowledged.done")).then(onDone);
  return html`<section class="card" aria-labelledby="incidents">
      <h2 id="incidents">${t("notices.incidents")}</h2>
      ${one.incidents.length === 0 ? html`<p class="muted">${t("notices.incidents.none")}</p>` : html`<ol class="attempts">
              ${one.incidents.map(
    (incident) => html`<li key=${incident.key} class="attempt">
                    <p class="row">
                      <strong class="num"><${Num} value=${incident.count} /></strong> ${incident.key && html`<${Text} value=${incident.key} max=${100} /> `}
                      <span class="muted">
                        <${Time} at=${incident.began_at} isPast /> – <${Time} at=${incident.last_at} isPast />
                      </span>
                      ${incident.acknowledged_by ? html`<${Badge} kind="warn">${t("notices.acknowledged_by", { who: visible(incident.acknowledged_by) })}<//>` : mayOperate && html`<${Button} class="small" onClick=${() => acknowledge(incident.key)}>${t("notices.acknowledge")}<//>`}
                    </p>
                    <ul class="plain">
                      ${incident.lines.map(
      (line) => html`<li key=${line.text}>
                              <span class="num">${line.count} ×</span> <${Text}
                                value=${line.text} max=${300} /> ${line.job_id && html`<${Id} id=${line.job_id} href=${href("job", { id: line.job_id })} />`}
                            </li>`
    )}
                    </ul>
                  </li>`
  )}
            </ol>`}
    </section>`;
}
function Messages({ one }) {
  const messages = [
    ...one.pending.map((m) => ({ ...m, isPending: true })),
    ...one.recent.map((m) => ({ ...m, isPending: false }))
  ];
  return html`<section class="card" aria-labelledby="messages">
      <h2 id="messages">${t("notices.messages")}</h2>
      ${messages.length === 0 ? html`<p class="muted">${t("notices.messages.none")}</p>` : html`<ul class="plain">
              ${messages.map(
    (m) => html`<li key=${m.id}>
                      <${Time} at=${m.at} isPast /> <${Badge}
                        kind=${m.kind === "test" ? "info" : m.kind === "over" ? "ok" : "bad"}>
                        ${tOr(`notices.kind.${m.kind}`, visible(m.kind))}
                      <//> ${m.kind !== "test" && html`<span class="num">${t("notices.message.count", { count: m.count })}</span> `}
                      ${m.key && html`<${Text} value=${m.key} max=${100} /> `}
                      ${m.isPending && html`<span class="muted">${t("notices.pending")}</span>`}
                    </li>`
  )}
            </ul>`}
      <${Deliveries2} tag=${`notice:${one.name}`} />
    </section>`;
}
function Deliveries2({ tag }) {
  const { data } = useResource((signal) => get("api/jobs/count", { tag }, signal), [tag], {
    events: ["jobs"],
    leastMs: 5e3,
    everyMs: 15e3
  });
  const counts = Object.entries(data?.states ?? {}).filter(([, { count }]) => count > 0);
  return html`<p class="row deliveries">
      <a href=${href("jobs", { tag })}>${t("notices.deliveries")}</a>
      ${counts.map(
    ([state, { count, is_exact: isExact2 }]) => html`<a key=${state} href=${href("jobs", { tag, state })}>
              ${!isExact2 && "≥ "}<${Num} value=${count} /> <${State} state=${state} />
            </a>`
  )}
    </p>`;
}
function Facts8({ one }) {
  return html`<section class="card">
      <h2>${t("notices.facts")}</h2>
      <dl class="facts">
        <dt>${t("notices.when")}</dt><dd>${tOr(`notices.when.${one.when}`, visible(one.when))}</dd>
        <dt>${t("notices.threshold")}</dt><dd><${Num} value=${one.threshold} /></dd>
        <dt>${t("notices.to")}</dt>
        <dd>
          <ul class="plain">
            ${one.to.map(
    (to2, n) => html`<li key=${n}>
                    ${t(`notices.to.${to2.mail ? "mail" : to2.webhook ? "webhook" : "slack"}`)}
                    : <${Text} value=${toText({ to: [to2] })} max=${300} />
                  </li>`
  )}
          </ul>
        </dd>
        <dt>${t("notices.group_by")}</dt><dd>${t(`notices.group_by.${one.group_by}`)}</dd>
        <dt>${t("notices.at_most_every_s")}</dt><dd><${Duration} ms=${one.at_most_every_s * 1e3} /></dd>
        ${one.muted_until && html`<dt>${t("notices.muted_until")}</dt><dd><${Time} at=${one.muted_until} /></dd>`}
        ${one.description && html`<dt>${t("notices.description")}</dt><dd><${Text} value=${one.description} max=${500} /></dd>`}
        <dt>${t("notices.changed")}</dt><dd><${Time} at=${one.changed_at} /></dd>
      </dl>
      ${one.matcher && html`<h3>${t("notices.matcher")}</h3><${RuleText} matcher=${one.matcher} />`}
    </section>`;
}

// targets/editor.js
var METHODS = ["POST", "PUT", "PATCH", "GET", "DELETE"];
var BODIES = ["argument", "envelope", "fireworq"];
var DEFAULTS2 = { max_running: "50", ok: "2xx", final: "400, 404, 410, 422", not_ready_for_s: "259200" };
var SELDOM = ["ok", "final", "timeout", "not_ready_for_s", "max_running_per_host", "headers"];
var LABELS2 = (
  /** @type {Record<string, string>} */
  {
    name: "job.name",
    names: "targets.names",
    method: "targets.method",
    body: "targets.body",
    ok: "targets.ok",
    final: "targets.final",
    allow_hosts: "targets.allow_hosts",
    description: "targets.description"
  }
);
var pathOfTarget = (name) => (
  /** @type {const} */
  `api/targets/${encodeURIComponent(name)}`
);
var labelOf8 = (name) => t(LABELS2[name] ?? `targets.form.${name}`);
var unlessUsual = (name, value) => String(value) === DEFAULTS2[name] ? "" : String(value);
var valuesOf8 = (target) => ({
  name: target?.name ?? "",
  names: (target?.names ?? []).join("\n"),
  address: target && typeof target.url !== "string" ? "argument" : "fixed",
  url: target ? typeof target.url === "string" ? target.url : target.url.from : "",
  method: target?.method ?? "POST",
  body: target?.body ?? "argument",
  max_running: target ? unlessUsual("max_running", target.max_running) : "",
  secret: "",
  is_unsigned: "",
  ok: target ? unlessUsual("ok", target.ok.join(", ")) : "",
  final: target ? unlessUsual("final", target.final.join(", ")) : "",
  timeout: String(target?.timeout ?? ""),
  not_ready_for_s: target ? unlessUsual("not_ready_for_s", target.not_ready_for_s) : "",
  max_running_per_host: String(target?.max_running_per_host ?? ""),
  headers: Object.entries(target?.headers ?? {}).map(([name, value]) => `${name}: ${value}`).join("\n"),
  allow_hosts: (target?.allow_hosts ?? []).join("\n"),
  description: target?.description ?? ""
});
var linesIn = (text) => (text ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
var statusesIn = (text) => text.split(/[\s,]+/).filter(Boolean).map((one) => /^\d+$/.test(one) ? Number(one) : one);
var headersIn = (text) => Object.fromEntries(
  linesIn(text).map((line) => {
    const at2 = line.indexOf(":");
    const msg = t("targets.headers.bad");
    if (at2 < 1) throw new Problem(422, { title: msg, errors: [{ loc: ["headers"], msg }] });
    return [line.slice(0, at2).trim(), line.slice(at2 + 1).trim()];
  })
);
function documentOf4(values2) {
  const text = (name) => values2[name]?.trim() ?? "";
  const figures2 = ["max_running", "max_running_per_host", "timeout", "not_ready_for_s"];
  return {
    names: linesIn(values2["names"]),
    url: text("address") === "argument" ? { from: text("url") } : text("url"),
    method: values2["method"],
    body: values2["body"],
    headers: headersIn(values2["headers"]),
    secret: values2["is_unsigned"] ? "" : text("secret") || null,
    ...Object.fromEntries(figures2.filter(text).map((name) => [name, Number(text(name))])),
    ...Object.fromEntries(["ok", "final"].filter(text).map((name) => [name, statusesIn(text(name))])),
    allow_hosts: linesIn(values2["allow_hosts"]),
    description: text("description")
  };
}
function TargetEditor({ target, onClose, onDone }) {
  const form = useForm(target, valuesOf8);
  const save = async (given, base) => {
    const name = target ? target.name : given["name"]?.trim() ?? "";
    if (!name) {
      const msg = t("constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    await put(pathOfTarget(name), documentOf4(given), {
      ...base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }
    });
    await onDone(name);
    return t("targets.saved", { name: visible(name) });
  };
  return html`<${FormDialog}
      isWide title=${target ? `${t("targets.edit")} · ${visible(target.name)}` : t("targets.make")}
      form=${form} onClose=${onClose} onSave=${save} isNew=${!target}
      reread=${target ? () => get(pathOfTarget(target.name)) : void 0} labelOf=${labelOf8}>
      ${target?.body === "fireworq" && html`<p class="muted">${t("targets.fireworq.text")}</p>`}
      ${!target && html`<${TextField} form=${form} name="name" hint=${t("constraints.name.rule")} maxlength="100" autocapitalize="none" />`}
      <${TextField}
        form=${form} name="names" as="textarea" rows="3" hint=${t("targets.names.hint")} placeholder="mail.*" />
      <${Address} form=${form} hasSecret=${target?.has_secret ?? false} />
      <${SeldomFields} form=${form} />
    <//>`;
}
var TextField = ({ form, name, ...more }) => html`<${FormField} form=${form} name=${name} label=${labelOf8(name)} spellcheck=${false} ...${more} />`;
var FigureField2 = ({ form, name, ...more }) => html`<${TextField}
      form=${form} name=${name} type="number" min="1" step="1"
      placeholder=${/** @type {Record<string, string>} */
DEFAULTS2[name]} ...${more} />`;
var Choice2 = ({ form, name, options }) => html`<${FormField} form=${form} name=${name} label=${labelOf8(name)} as="select">
      ${options.map(([one, text]) => html`<option key=${one} value=${one}>${text}</option>`)}
    <//>`;
function Address({ form, hasSecret }) {
  const { values: values2 } = form;
  const hasOwn = values2["address"] === "argument";
  return html`<div class="form-grid">
      <${Choice2}
        form=${form} name="address"
        options=${["fixed", "argument"].map((one) => [one, t(`targets.address.${one}`)])} />
      <${TextField}
        form=${form} name="url" hint=${t(`targets.url.hint.${hasOwn ? "argument" : "fixed"}`)}
        placeholder=${hasOwn ? "argument.url" : "https://app.example/jobs/{name}"} maxlength="2048"
        autocapitalize="none" />
      <${Choice2} form=${form} name="method" options=${METHODS.map((one) => [one, one])} />
      <${Choice2}
        form=${form} name="body"
        options=${BODIES.map((one) => [one, tOr(`targets.body.${one}`, visible(one))])} />
      <${FigureField2} form=${form} name="max_running" hint=${t("targets.max_running.hint")} />
    </div>
    ${(hasOwn || values2["allow_hosts"]) && html`<${TextField}
          form=${form} name="allow_hosts" as="textarea" rows="2" hint=${t("targets.allow_hosts.hint")}
          placeholder="*.app.example" />`}
    <${TextField}
      form=${form} name="secret" hint=${t(hasSecret ? "targets.secret.kept" : "targets.secret.hint")}
      maxlength="200" placeholder="whsec_…" disabled=${values2["is_unsigned"] === "yes"} />
    ${hasSecret && html`<${FormCheck} form=${form} name="is_unsigned">${labelOf8("is_unsigned")}<//>`}
    <${TextField} form=${form} name="description" maxlength="500" spellcheck />`;
}
function SeldomFields({ form }) {
  return html`<${FormMore} form=${form} names=${SELDOM} problem=${form.problem} label=${t("targets.more")}>
      <div class="form-grid">
        <${TextField} form=${form} name="ok" hint=${t("targets.statuses.hint")} placeholder=${DEFAULTS2.ok} />
        <${TextField}
          form=${form} name="final" hint=${t("targets.statuses.hint")} placeholder=${DEFAULTS2.final} />
        <${FigureField2} form=${form} name="timeout" hint=${t("targets.timeout.hint")} min="0.001" step="any" />
        <${FigureField2} form=${form} name="not_ready_for_s" hint=${t("targets.not_ready_for_s.hint")} />
        <${FigureField2} form=${form} name="max_running_per_host" />
      </div>
      <${TextField}
        form=${form} name="headers" as="textarea" rows="3" hint=${t("targets.headers.hint")}
        placeholder="Authorization: Bearer …" />
    <//>`;
}

// targets/pages/targets.js
var EXAMPLE7 = { names: ["mail.*"], url: "https://app.example/jobs/{name}", max_running: 20 };
var READ5 = { events: ["jobs"], leastMs: 2e3, everyMs: 5e3 };
var KINDS9 = (
  /** @type {Record<string, import("../../ui/formats.js").Kind>} */
  {
    succeeded: "ok",
    awaiting: "info",
    not_ready: "warn",
    unreachable: "bad",
    failed: "bad",
    rejected: "bad"
  }
);
function Page22({ query, go: go3, session: session2 }) {
  return query["name"] ? html`<${One9} key=${query["name"]} name=${query["name"]} go=${go3} session=${session2} />` : html`<${List10} session=${session2} />`;
}
var addressOf3 = (one) => typeof one.url === "string" ? one.url : one.url.from;
var Outcome2 = ({ result }) => html`<${Badge} kind=${KINDS9[result] ?? "info"}>${tOr(`targets.result.${result}`, visible(result))}<//>`;
function Reach({ one }) {
  if (one.unreachable.length > 0) return html`<${Badge} kind="bad">${t("targets.unreachable")}<//>`;
  const last = one.figures.last[0];
  return last ? html`<${Outcome2} result=${last.result} />` : html`<${Badge} kind="off">${t("targets.idle")}<//>`;
}
var Running = ({ one }) => html`<span class="num"><${Num} value=${one.running} /> / <${Num} value=${one.max_running} /></span>`;
var Took99 = ({ one }) => one.figures.took ? html`<${Duration} ms=${one.figures.took.p99_ms} />` : html`<${Num} value=${null} />`;
function List10({ session: session2 }) {
  const found = useResource((signal) => get("api/targets", {}, signal), [], READ5);
  return html`<${NamedList}
      page="targets" session=${session2} found=${found} rows=${found.data?.targets} columns=${COLUMNS8}
      example=${curl(session2, "PUT", "api/targets/app", { body: EXAMPLE7 })}
      editor=${(onClose, onDone) => html`<${TargetEditor} target=${null} onClose=${onClose} onDone=${onDone} />`} />`;
}
var COLUMNS8 = [
  {
    key: "name",
    label: "job.name",
    phone: "main",
    render: (one) => html`<a href=${href("targets", { name: one.name })} title=${visible(one.name)}>${visible(one.name)}</a>`
  },
  {
    key: "address",
    label: "targets.address",
    phone: "line",
    priority: 2,
    render: (one) => html`<span title=${visible(addressOf3(one))}><${Text} value=${addressOf3(one)} max=${120} /></span>`
  },
  {
    key: "names",
    label: "targets.names",
    priority: 2,
    render: (one) => html`<span title=${visible(one.names.join(", "))}><${Text} value=${one.names.join(", ")} max=${120} /></span>`
  },
  {
    key: "state",
    label: "targets.last",
    width: 10,
    phone: "side",
    render: (one) => html`<${Reach} one=${one} />`
  },
  {
    key: "running",
    label: "targets.running",
    width: 10.5,
    align: "end",
    priority: 2,
    render: (one) => html`<${Running} one=${one} />`
  },
  {
    key: "rate",
    label: "targets.rate",
    width: 7,
    align: "end",
    render: (one) => html`<span class="num">${perSText(one.figures.requests_per_s)}</span>`
  },
  {
    key: "p99",
    label: "targets.p99",
    width: 5.5,
    align: "end",
    priority: 2,
    render: (one) => html`<${Took99} one=${one} />`
  }
];
function One9({ name, go: go3, session: session2 }) {
  const path = pathOfTarget(name);
  const [dialog, setDialog] = E2("");
  const found = useResource((signal) => get(path, {}, signal), [name], READ5);
  useTitle(name);
  const one = found.data;
  const mayOperate = may(session2, "operate");
  if (!one)
    return html`<${Absent} page="targets" title=${t("targets.unknown", { name: visible(name) })} found=${found} />`;
  return html`<p class="crumbs"><a href=${href("targets")}>${t("nav.targets")}</a></p>
    <div class="page-head job-head"><h1><${Text} value=${name} max=${60} /></h1><${Reach} one=${one} /></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${mayOperate && html`<div class="row actions" role="group" aria-label=${t("targets.actions")}>
      <${Button} opensDialog kind="primary" onClick=${() => setDialog("test")}>${t("targets.test")}<//>
      <${Button} opensDialog onClick=${() => setDialog("edit")}>${t("targets.edit")}<//>
      <${Copy} label=${t("copy.curl")} text=${() => curl(session2, "PUT", path, { body: documentOf5(one) })} />
      <${Button} opensDialog kind="danger" onClick=${() => setDialog("delete")}>${t("action.delete")}<//></div>`}
    ${one.unreachable.length > 0 && html`<div class="card">
          <h2>${t("targets.unreachable")}</h2>
          <ul class="plain">
            ${one.unreachable.map(
    (why) => html`<li key=${why}><${Text} value=${why} max=${300} /></li>`
  )}
          </ul>
        </div>`}
    <div class="job-grid">
      <div class="stack"><${Answers2} one=${one} /></div>
      <div class="stack"><${Now3} one=${one} /><${Facts9} one=${one} /></div>
    </div>
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${dialog === "test" && html`<${Test} path=${path} onClose=${() => setDialog("")} onDone=${found.reload} />`}
    ${dialog === "edit" && html`<${TargetEditor} target=${one} onClose=${() => setDialog("")} onDone=${found.reload} />`}
    ${dialog === "delete" && html`<${Sure}
          title=${t("targets.delete.title")} verb=${t("action.delete")}
          onConfirm=${() => del(path).then(() => go3("targets"))} onClose=${() => setDialog("")}>
          <p>${t("targets.delete.text", { name: visible(name) })}</p>
        <//>`}`;
}
function documentOf5(one) {
  const { names, url, method, body, headers, max_running, max_running_per_host } = one;
  const { ok, final, timeout, not_ready_for_s, allow_hosts, description } = one;
  return {
    names,
    url,
    method,
    body,
    headers,
    max_running,
    max_running_per_host,
    ok,
    final,
    timeout,
    not_ready_for_s,
    allow_hosts,
    description
  };
}
function Answers2({ one }) {
  const last = one.figures.last;
  return html`<section class="card" aria-labelledby="answers">
      <h2 id="answers">${t("targets.answers")}</h2>
      ${last.length === 0 ? html`<p class="muted">${t("targets.answers.none")}</p>` : html`<ol class="attempts">
              ${last.map(
    (answer) => html`<li key=${`${answer.job_id} ${answer.at}`} class="attempt">
                    <p class="row">
                      <${Outcome2} result=${answer.result} /> ${answer.status !== null && html`<span class="num">${answer.status}</span> `}
                      <${Id} id=${answer.job_id} href=${href("job", { id: answer.job_id })} /> <span
                        class="muted">
                        <${Time} at=${answer.at} /> · <${Duration} ms=${answer.took_ms} />
                      </span>
                    </p>
                    <p><${Text} value=${answer.detail} max=${300} /></p>
                    ${answer.body && html`<p class="muted"><${Text} value=${answer.body} max=${300} /></p>`}
                  </li>`
  )}
            </ol>`}
    </section>`;
}
function Now3({ one }) {
  const { took, results, requests_per_s: rate } = one.figures;
  return html`<section class="card">
      <h2>${t("targets.now")}</h2>
      <dl class="facts">
        <dt>${t("targets.running")}</dt><dd><${Running} one=${one} /></dd>
        <dt>${t("targets.rate")}</dt><dd class="num">${perSText(rate)}</dd>
        ${took && html`<dt>${t("targets.took")}</dt>
            <dd>
              p50 <${Duration} ms=${took.p50_ms} /> · p95 <${Duration} ms=${took.p95_ms} /> · p99 <${Duration}
                ms=${took.p99_ms} />
            </dd>`}
        ${Object.entries(results).map(
    ([result, count]) => html`<dt key=${result}>${tOr(`targets.result.${result}`, visible(result))}</dt><dd><${Num} value=${count} /></dd>`
  )}
      </dl>
    </section>`;
}
function Facts9({ one }) {
  return html`<section class="card">
      <h2>${t("targets.facts")}</h2>
      <dl class="facts">
        <dt>${t("targets.address")}</dt>
        <dd><code>${one.method}</code> <${Text} value=${addressOf3(one)} max=${300} /></dd>
        <dt>${t("targets.names")}</dt><dd><${Text} value=${one.names.join(", ")} max=${500} /></dd>
        ${one.serving.length > 0 && html`<dt>${t("targets.serving")}</dt><dd><${Text} value=${one.serving.join(", ")} max=${500} /></dd>`}
        ${one.left_out > 0 && html`<dt>${t("targets.left_out")}</dt>
            <dd>
              <${Badge} kind="bad">${t("targets.left_out.names", { count: one.left_out })}<//> ${t(
    "targets.left_out.text",
    { most: one.serving.length }
  )}
            </dd>`}
        <dt>${t("targets.body")}</dt><dd>${tOr(`targets.body.${one.body}`, visible(one.body))}</dd>
        <dt>${t("targets.ok")}</dt><dd class="num">${one.ok.join(", ")}</dd>
        <dt>${t("targets.final")}</dt><dd class="num">${one.final.join(", ")}</dd>
        ${one.timeout !== null && html`<dt>${t("targets.timeout")}</dt><dd><${Duration} ms=${one.timeout * 1e3} /></dd>`}
        <dt>${t("targets.signed")}</dt>
        <dd>
          ${t(one.has_secret ? "yes" : "no")}
          ${one.previous_secret_until && html` · ${t("targets.previous_secret")} <${Time} at=${one.previous_secret_until} isNext />`}
        </dd>
        ${one.allow_hosts.length > 0 && html`<dt>${t("targets.allow_hosts")}</dt><dd><${Text} value=${one.allow_hosts.join(", ")} max=${300} /></dd>`}
        ${one.description && html`<dt>${t("targets.description")}</dt><dd><${Text} value=${one.description} max=${500} /></dd>`}
        <dt>${t("targets.changed")}</dt><dd><${Time} at=${one.changed_at} /></dd>
        <dt>${t("pause.by")}</dt><dd title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</dd>
      </dl>
    </section>`;
}
function Test({ path, onClose, onDone }) {
  const [argument, setArgument] = E2("{}");
  const [fault2, setFault] = E2("");
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [found, setFound] = E2(
    /** @type {TargetTest | null} */
    null
  );
  const [isSending, setSending] = E2(false);
  const send = async (event) => {
    event.preventDefault();
    let value;
    try {
      value = JSON.parse(argument);
    } catch {
      setFault(t("targets.test.no_json"));
      return;
    }
    setFault("");
    setProblem(null);
    setSending(true);
    try {
      setFound(await call("POST", `${path}/test`, { body: { argument: value } }));
      onDone();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    } finally {
      setSending(false);
    }
  };
  return html`<${Dialog} isWide title=${t("targets.test.title")} onClose=${onClose}>
      <form onSubmit=${send}>
        <p class="muted">${t("targets.test.text")}</p>
        <${Field} label=${t("job.argument")}>
          ${(attributes) => html`<textarea
                ...${attributes} rows="3" spellcheck=${false} value=${argument}
                onInput=${(event) => setArgument(event.target.value)}></textarea>`}
        <//>
        ${fault2 && html`<p class="field-error" role="alert">${fault2}</p>`}
        <${ErrorBox} problem=${problem} />
        ${found && html`<${Exchange} found=${found} />`}
        <footer>
          <${Button} onClick=${onClose}>${t("close")}<//>
          <${Button} type="submit" kind="primary" disabled=${isSending}>${t("targets.test.send")}<//>
        </footer>
      </form>
    <//>`;
}
function Exchange({ found }) {
  const { request, answer } = found;
  return html`<section aria-live="polite">
      <p class="row">
        <${Outcome2} result=${found.result} /> <span class="num">${answer?.status}</span> <${Duration}
          ms=${found.took_ms} /> <${Text} value=${found.detail} max=${300} />
      </p>
      <h3>${t("targets.test.request")}</h3>
      <${Code}
        label=${t("targets.test.request")}
        text=${`${request.method} ${request.url}
${lines(request.headers)}

${request.body}`} />
      <h3>${t("targets.test.answer")}</h3>
      ${answer ? html`<${Code} label=${t("targets.test.answer")} text=${`${answer.status}
${lines(answer.headers)}

${answer.body}`} />` : html`<p class="muted">${t("targets.test.no_answer")}</p>`}
    </section>`;
}
var lines = (headers) => Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\n");

// jobs/argument_fields.js
var INTEGER = /^-?(0|[1-9]\d*)$/;
var NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;
var UTC_INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/;
var DATE = /^\d{4}-\d\d-\d\d$/;
var TIME = /^\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/;
var TYPED2 = "argument.";
var SHOWN_AS = "argument as.";
var EXAMPLES = (
  /** @type {Record<string, string>} */
  {
    duration: "PT1H30M",
    uuid: "0190c0de-0000-7000-8000-000000000000",
    byte: "aGVsbG8=",
    decimal: "12.50"
  }
);
function hasFields(schema) {
  return Boolean(
    schema && typesOf(schema).includes("object") && Object.keys(schema["properties"] ?? {}).length > 0
  );
}
function fieldsOf2(schema, values2) {
  const required = (
    /** @type {string[]} */
    schema["required"] ?? []
  );
  const properties = (
    /** @type {Record<string, Schema>} */
    schema["properties"]
  );
  const known2 = Object.entries(properties).map(
    ([name, one]) => fieldOf(name, one, schema, required.includes(name))
  );
  const loose = Object.keys(values2).filter((key) => key.startsWith(TYPED2) && values2[key]?.trim()).map((key) => key.slice(TYPED2.length)).filter((name) => !Object.hasOwn(properties, name)).map((name) => ({ ...fieldOf(name, {}, schema, false), isLoose: true }));
  return [...known2, ...loose].map((field) => {
    const shownAs = (
      /** @type {Control | undefined} */
      values2[SHOWN_AS + field.name]
    );
    return shownAs ? { ...field, control: shownAs } : field;
  });
}
var keyOf5 = (name) => TYPED2 + name;
function fieldOf(name, given, root2, isRequired) {
  const { schema, isNullable } = resolved(given, root2);
  const about = given["description"] ?? schema["description"];
  const example = EXAMPLES[schema["format"]];
  const fallback = Object.hasOwn(given, "default") ? toJson(given["default"]) : null;
  return {
    name,
    control: controlOf(schema),
    isRequired,
    isNullable,
    choices: choicesOf(schema),
    hint: [
      typeof about === "string" ? about : "",
      rangeOf(schema),
      example ? t("enqueue.field.example", { text: example }) : "",
      fallback === null ? "" : t("enqueue.field.default", { value: fallback.slice(0, 80) })
    ].filter(Boolean).join(" "),
    fallback,
    isLoose: false
  };
}
function resolved(schema, root2) {
  let found = schema;
  let isNullable = false;
  for (let n = 0; n < 20; n++) {
    const reference = found["$ref"];
    const options = found["anyOf"] ?? found["oneOf"];
    const only2 = found["allOf"];
    if (typeof reference === "string" && reference.startsWith("#/$defs/")) {
      found = root2["$defs"]?.[reference.slice("#/$defs/".length)] ?? {};
    } else if (Array.isArray(options)) {
      const others = options.filter((one) => one?.["type"] !== "null");
      if (others.length < options.length) isNullable = true;
      if (others.length !== 1) break;
      found = others[0];
    } else if (Array.isArray(only2) && only2.length === 1 && Object.keys(found).every((key) => key === "allOf" || key === "default")) {
      found = only2[0];
    } else break;
  }
  const types = typesOf(found);
  if (types.includes("null") || found["enum"]?.includes(null)) isNullable = true;
  return { schema: found, isNullable };
}
var typesOf = (schema) => Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]];
function choicesOf(schema) {
  if (Array.isArray(schema["enum"])) return schema["enum"].map((value) => toJson(value));
  if (Object.hasOwn(schema, "const")) return [toJson(schema["const"])];
  return typesOf(schema).join() === "boolean" ? ["true", "false"] : [];
}
function controlOf(schema) {
  if (choicesOf(schema).length > 0) return "choice";
  const types = typesOf(schema).filter((type) => type !== "null");
  if (types.join() === "string,number" && schema["format"] === "decimal") return "text";
  if (types.length !== 1) return "json";
  if (types[0] === "integer" || types[0] === "number") return types[0];
  if (types[0] !== "string") return "json";
  const format = schema["format"];
  return format === "date" || format === "time" || format === "date-time" ? format : "text";
}
function rangeOf(schema) {
  const least = schema["minimum"] ?? schema["minLength"] ?? schema["minItems"];
  const most = schema["maximum"] ?? schema["maxLength"] ?? schema["maxItems"];
  const what = typesOf(schema).includes("string") ? "length" : typesOf(schema).includes("array") ? "items" : "value";
  if (schema["format"] === "byte" || least === void 0 && most === void 0) return "";
  const side = least === void 0 ? "most" : most === void 0 ? "least" : "range";
  return t(`enqueue.field.${what}.${side}`, { least: String(least), most: String(most) });
}
function valuesOf9(schema, text, values2) {
  let argument;
  try {
    argument = text.trim() ? parseExact(text) : {};
  } catch {
    return null;
  }
  if (argument === null) argument = {};
  if (typeof argument !== "object" || Array.isArray(argument)) return null;
  const changes = {};
  for (const key of Object.keys(values2))
    if (key.startsWith(TYPED2) || key.startsWith(SHOWN_AS)) changes[key] = "";
  const fields = new Map(fieldsOf2(schema, {}).map((field) => [field.name, field]));
  for (const [name, value] of Object.entries(argument)) {
    const field = fields.get(name) ?? fieldOf(name, {}, schema, false);
    const [typed, shownAs] = textOf3(field, value);
    changes[TYPED2 + name] = typed;
    changes[SHOWN_AS + name] = shownAs;
  }
  return changes;
}
function textOf3(field, value) {
  const json = toJson(value);
  if (field.control === "json") return [toJson(value, 2), ""];
  if (value === null && field.isNullable && (field.isRequired || field.fallback === "null") && field.control !== "choice")
    return ["", ""];
  if (field.control === "choice") return field.choices.includes(json) ? [json, ""] : [json, "json"];
  if (field.control === "integer" || field.control === "number") {
    const rule2 = field.control === "integer" ? INTEGER : NUMBER;
    return rule2.test(json) ? [json, ""] : [json, "json"];
  }
  if (typeof value !== "string" || value.trim() === "") return [json, "json"];
  const rule = { "date-time": UTC_INSTANT, date: DATE, time: TIME }[
    /** @type {string} */
    field.control
  ];
  return [value, rule && !rule.test(value) ? "text" : ""];
}
function argumentOf(fields, values2) {
  const members = [];
  const problems = [];
  const missing = [];
  for (const field of fields) {
    const typed = values2[TYPED2 + field.name] ?? "";
    const key = JSON.stringify(field.name);
    const loc = ["argument", field.name];
    if (typed.trim() === "") {
      if (!field.isRequired) continue;
      if (field.isNullable) members.push(`${key}:null`);
      else missing.push({ loc, msg: t("enqueue.field.missing") });
      continue;
    }
    const { text, fault: fault2 } = memberOf(field.control, typed);
    members.push(`${key}:${text}`);
    if (fault2) problems.push({ loc, msg: fault2 });
  }
  return { text: `{${members.join(",")}}`, problems, missing };
}
function memberOf(control, typed) {
  const trimmed = typed.trim();
  if (control === "integer" || control === "number") {
    const fits = (control === "integer" ? INTEGER : NUMBER).test(trimmed);
    return {
      text: fits ? trimmed : JSON.stringify(typed),
      fault: fits ? "" : t(`enqueue.field.no_${control}`)
    };
  }
  if (control !== "choice" && control !== "json") return { text: JSON.stringify(typed), fault: "" };
  try {
    parseExact(trimmed);
    return { text: trimmed, fault: "" };
  } catch (error) {
    const why = error instanceof Error ? error.message : "";
    return { text: JSON.stringify(typed), fault: `${t("enqueue.field.no_json")}: ${why}` };
  }
}

// jobs/argument_form.js
var CONTRACT_MS = 300;
function useContract(name) {
  const [contract, setContract] = E2(
    /** @type {Contract | null} */
    null
  );
  W2(() => {
    if (!name) {
      setContract(null);
      return void 0;
    }
    const aborter = new AbortController();
    const timer2 = setTimeout(() => {
      get(`api/names/${encodeURIComponent(name)}`, {}, aborter.signal).then(
        (answer) => setContract(answer.contracts?.[0] ?? null),
        (error) => {
          if (error instanceof Problem) setContract(null);
        }
      );
    }, CONTRACT_MS);
    return () => {
      clearTimeout(timer2);
      aborter.abort();
    };
  }, [name]);
  return contract;
}
function useArgument(form, contract) {
  const { values: values2 } = form;
  const schema = contract?.argument_schema && hasFields(contract.argument_schema) ? contract.argument_schema : null;
  const [isRefused, setRefused] = E2(false);
  const given = j(values2["argument"] ?? "");
  const isByFields = schema !== null && values2["mode"] === "fields";
  const fields = y(() => schema ? fieldsOf2(schema, values2) : [], [schema, values2]);
  const built = y(() => argumentOf(fields, values2), [fields, values2]);
  const last = j(built);
  if (isByFields) last.current = built;
  const typed = values2["argument"] ?? "";
  const give = (text, mode = "") => {
    given.current = text;
    form.set({ argument: text, mode });
  };
  const toRaw = (mode) => {
    give(isSame(typed, last.current.text) ? typed : toJson(parseExact(last.current.text), 2), mode);
    setRefused(false);
  };
  const toFields = () => {
    const isUntouched = typed === given.current && fields.some((one) => values2[keyOf5(one.name)]);
    const changes = isUntouched ? {} : schema && valuesOf9(schema, typed, values2);
    setRefused(!changes);
    if (!changes) return;
    given.current = typed;
    form.set({ ...changes, mode: "fields" });
  };
  W2(() => {
    const { mode } = values2;
    if (!schema && mode === "fields") toRaw("");
    else if (schema && !mode && typed === given.current && !values2["left_out"]) toFields();
  }, [schema, values2["left_out"]]);
  return {
    hasSchema: schema !== null,
    isByFields,
    fields,
    text: isByFields ? built.text : typed,
    problems: isByFields ? built.problems : [],
    missing: isByFields ? built.missing : [],
    isRefused,
    choose: (mode) => mode === "fields" ? toFields() : toRaw("json"),
    give
  };
}
function isSame(one, other) {
  try {
    return toJson(sorted(parseExact(one))) === toJson(sorted(parseExact(other)));
  } catch {
    return false;
  }
}
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
  return Object.fromEntries(members.map(([key, member]) => [key, sorted(member)]));
}
function ArgumentForm({ form, argument, problem }) {
  const raw = html`<${FormField}
      form=${form} name="argument" as="textarea" rows="9" problem=${problem} label=${t("job.argument")}
      hint=${html`<${JsonHint} />`} spellcheck=${false} />`;
  if (!argument.hasSchema) return raw;
  const { isByFields } = argument;
  const whole = (problem?.errors ?? []).filter((error) => error.loc.join(".") === "argument");
  return html`<div class="stack">
      <div class="row" role="group" aria-label=${t("enqueue.argument.mode")}>
        <${Button}
          class="small" aria-pressed=${String(isByFields)} onClick=${() => argument.choose("fields")}>
          ${t("enqueue.argument.fields")}
        <//>
        <${Button} class="small" aria-pressed=${String(!isByFields)} onClick=${() => argument.choose("json")}>
          ${t("enqueue.argument.raw")}
        <//>
      </div>
      ${argument.isRefused && html`<p class="warning" role="alert">${t("enqueue.argument.no_fields")}</p>`}
      <fieldset class="plain-fields" hidden=${!isByFields}>
        <legend>${t("job.argument")}</legend>
        ${whole.length > 0 && html`<p class="field-error">${visible(whole.map((error) => error.msg).join("; "))}</p>`}
        <div class="form-grid">
          ${argument.fields.map(
    (field) => html`<${OneField} key=${field.name} form=${form} field=${field} problem=${problem} />`
  )}
        </div>
      </fieldset>
      ${!isByFields && raw}
    </div>`;
}
function OneField({ form, field, problem }) {
  useZone();
  const name = keyOf5(field.name);
  const label = `${visible(field.name)}${field.isRequired ? " *" : ""}`;
  const hint = [field.isLoose ? t("enqueue.field.loose") : "", visible(field.hint)].filter(Boolean).join(" ");
  const common = {
    form,
    name,
    label,
    problem,
    path: `argument.${field.name}`,
    hint: field.control === "json" ? [t("enqueue.field.json"), hint].join(" ") : hint || void 0,
    spellcheck: false,
    "aria-required": field.isRequired ? "true" : void 0
  };
  const usual = field.fallback === null || field.fallback.length > 40 ? "" : visible(field.fallback.replace(/^"|"$/g, ""));
  switch (field.control) {
    case "choice":
      return html`<${FormField} ...${common} as="select">
          <option value="">
            ${t(field.isRequired ? "enqueue.field.choose" : "enqueue.field.leave_out")}
          </option>
          ${field.choices.map(
        (one) => html`<option key=${one} value=${one}>${visible(textOfChoice(one))}</option>`
      )}
        <//>`;
    case "json":
      return html`<${FormField} ...${common} as="textarea" class="short" rows="3" placeholder=${usual} />`;
    case "integer":
    case "number":
      return html`<${FormField} ...${common} inputmode=${field.control === "integer" ? "numeric" : "decimal"} placeholder=${usual} />`;
    case "date":
      return html`<${FormField} ...${common} type="date" max="9999-12-31" />`;
    case "date-time":
      return html`<${FormField}
          ...${common} form=${inPageZone(form)} label=${inZone(label, form.values[name])}
          type="datetime-local" step="1" max=${LATEST} />`;
    case "time":
      return html`<${FormField} ...${common} form=${withSeconds(form)} type="time" step="1" />`;
    default:
      return html`<${FormField} ...${common} placeholder=${usual} />`;
  }
}
function textOfChoice(json) {
  const value = parseExact(json);
  return typeof value === "string" ? value : json;
}
var inPageZone = (form) => adapted(form, inputOf, instantIn);
var withSeconds = (form) => adapted(
  form,
  (text) => text,
  (text) => full(text, 5)
);
var full = (text, length) => text.length === length ? `${text}:00` : text;
function adapted(form, shown2, kept) {
  return {
    ...form,
    input: (name) => ({
      name,
      value: shown2(form.values[name] ?? ""),
      onInput: (event) => form.set({ [name]: event.target.value ? kept(event.target.value) : "" })
    })
  };
}

// jobs/pages/enqueue.js
var PREVIEW_MS2 = 500;
var BLANK3 = {
  name: "",
  argument: "{}",
  // How the argument is entered: by `fields` or as `json`. "": the user has not chosen, and fields are used if
  // possible.
  mode: "",
  key: "",
  priority: "0",
  max_retry: "5",
  timeout: "30",
  when: "now",
  delay: "60",
  run_at: "",
  expires_s: "",
  expires_at: "",
  tags: "",
  headers: "",
  requires: "",
  keep_result: "",
  rerun_lost: "",
  left_out: ""
};
var TOLD = ["priority", "max_retry", "timeout", "tags", "keep_result", "rerun_lost"];
var SELDOM2 = ["requires", "expires_s", "expires_at", "key", "headers", "rerun_lost"];
var REDACTED = "[redacted]";
function Page23({ query, go: go3, session: session2 }) {
  if (!may(session2, "push"))
    return html`<h1>${t("nav.enqueue")}</h1><div class="card"><${Empty} title=${t("enqueue.forbidden")} /></div>`;
  return html`<${Enqueue} query=${query} go=${go3} session=${session2} />`;
}
function Enqueue({ query, go: go3, session: session2 }) {
  useZone();
  const form = useForm(null, () => ({ ...BLANK3, name: query["name"] ?? "" }));
  const { values: values2, problem } = form;
  const [isTried, setTried] = E2(false);
  const from = query["from"];
  const contract = useContract(values2["name"]?.trim() ?? "");
  const argument = useArgument(form, contract);
  useCopied(from, form, argument);
  const told4 = useToldOptions(form, contract, Boolean(from));
  const made = y(() => bodyOf({ ...values2, argument: argument.text }), [values2, argument.text]);
  const preview = usePreview2(made.text);
  const { sent, setSent, send } = useSending2(form);
  const submit = async (event) => {
    event.preventDefault();
    setSent(null);
    setTried(true);
    if (argument.problems.length > 0 || argument.missing.length > 0) {
      form.setProblem(null);
      const page = (
        /** @type {HTMLFormElement} */
        event.target
      );
      requestAnimationFrame(() => focusOn(page.querySelector("[aria-invalid=true]")));
    } else if (made.text === void 0) form.setProblem(made.problem ?? null);
    else await send(made.text, () => setTried(false));
  };
  const shown2 = problem ?? preview.problem;
  const faults = [...argument.problems, ...isTried ? argument.missing : []];
  const ofArgument = made.problem ?? argumentProblem(faults, shown2, argument.missing.length > 0, preview.misfits);
  return html`<div class="page-head">
      <h1>${t("nav.enqueue")}</h1>
      ${made.body && html`<${Copy} text=${() => curl(session2, "POST", "api/jobs", { body: made.body })} label=${t("copy.curl")} />`}
    </div>
    ${from && html`<p class="muted">${t("enqueue.from")} <a class="id" href=${href("job", { id: from })}>${visible(from)}</a></p>`}
    ${values2["left_out"] && html`<div class="card" role="note">${t("enqueue.left_out")}</div>`}
    ${sent && html`<div class="sent card" role="status">
          <strong>${t(sent.isNew ? "enqueue.done" : "enqueue.was_there")}</strong> <a
            class="id" href=${href("job", { id: sent.id })}>
            ${visible(sent.id)}
          </a> <${Button} class="small" onClick=${() => go3("job", { id: sent.id })}>${t("enqueue.show")}<//>
        </div>`}
    <div class="job-grid">
      <form class="card stack" onSubmit=${submit} novalidate>
        <${NameField} form=${form} problem=${shown2} />
        <${ArgumentForm} form=${form} argument=${argument} problem=${ofArgument} />
        ${told4 && html`<p class="hint" role="note">${t("enqueue.told")}</p>`}
        <${Terms} form=${form} problem=${shown2} />
        <${SeldomTerms} form=${form} problem=${shown2} />
        <${ErrorBox} problem=${problem} />
        <div><button class="button primary" disabled=${form.isBusy}>${t("nav.enqueue")}</button></div>
      </form>
      <${Preview3} preview=${preview} isReady=${Boolean(made.text && values2["name"])} />
    </div>`;
}
function useCopied(from, form, argument) {
  W2(() => {
    if (!from) return;
    get(`api/jobs/${encodeURIComponent(from)}`).then(
      (job) => {
        const { argument: given = "", ...rest } = formOf2(job);
        form.set(rest);
        argument.give(given);
      },
      (error) => form.setProblem(error instanceof Problem ? error : null)
    );
  }, [from]);
}
function useSending2(form) {
  const [sent, setSent] = E2(
    /** @type {{id: string, isNew: boolean} | null} */
    null
  );
  const key = j("");
  y(() => {
    key.current = newKey();
  }, [form.values]);
  const send = (text, onDone) => form.run(async () => {
    let isNew = true;
    const answer = await call("POST", "api/jobs", {
      text,
      // If the form contains an idempotency key, use it instead of ours.
      ...!form.values["key"] && { headers: { "Idempotency-Key": key.current } },
      heard: (response) => isNew = response.status === 201
    });
    setSent({ id: answer.id, isNew });
    onDone();
    key.current = newKey();
    toast(t(isNew ? "enqueue.done" : "enqueue.was_there"));
  });
  return { sent, setSent, send };
}
function NameField({ form, problem }) {
  const typedName = form.values["name"]?.trim() ?? "";
  const names = useKnownNames2();
  const isUnknown = typedName !== "" && names !== null && !names.includes(typedName);
  return html`<${FormField}
      form=${form} name="name" problem=${problem} label=${t("job.name")} hint=${t("enqueue.name.hint")}
      list="known-names" maxlength="200" autocapitalize="none" spellcheck=${false} />
    ${isUnknown && html`<p class="warning" role="status">${t("enqueue.no_worker", { name: visible(typedName) })}</p>`}
    <datalist id="known-names">${names?.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}
function Terms({ form, problem }) {
  const { values: values2 } = form;
  return html`<div class="form-grid">
      <${FormField} form=${form} name="when" as="select" label=${t("enqueue.when")}>
        ${["now", "delay", "run_at"].map(
    (one) => html`<option key=${one} value=${one}>${t(`enqueue.when.${one}`)}</option>`
  )}
      <//>
      ${values2["when"] === "delay" && html`<${FormField} form=${form} name="delay" problem=${problem} label=${t("enqueue.delay")} type="number" min="0" step="any" />`}
      ${values2["when"] === "run_at" && html`<${FormField}
            form=${form} name="run_at" problem=${problem} label=${inZone(t("job.due"), values2["run_at"])}
            type="datetime-local" step="1" max=${LATEST} />`}
      <${FormField}
        form=${form} name="priority" problem=${problem} label=${t("job.priority")}
        hint=${t("job.priority.hint")} type="number" step="1" />
      <${FormField}
        form=${form} name="max_retry" problem=${problem} label=${t("job.max_retry")} type="number" min="0"
        max="1000" step="1" />
      <${FormField}
        form=${form} name="timeout" problem=${problem} label=${t("job.timeout_s")} type="number" min="0.001"
        step="any" />
      <${FormField}
        form=${form} name="tags" problem=${problem} label=${t("job.tags")} hint=${t("enqueue.tags.hint")}
        spellcheck=${false} />
    </div>
    <div class="row"><${FormCheck} form=${form} name="keep_result">${t("job.keep_result")}<//></div>`;
}
function SeldomTerms({ form, problem }) {
  return html`<${FormMore} form=${form} names=${SELDOM2} problem=${problem} label=${t("enqueue.more")}>
      <div class="form-grid">
        <${FormField}
          form=${form} name="requires" problem=${problem} label=${t("job.requires")}
          hint=${t("job.requires.hint")} spellcheck=${false} />
        <${FormField}
          form=${form} name="expires_s" problem=${problem} label=${t("job.expires_s")}
          hint=${t("job.expires_s.hint")} type="number" min="0.001" step="any" />
        <${FormField}
          form=${form} name="expires_at" problem=${problem}
          label=${inZone(t("job.expires"), form.values["expires_at"])} type="datetime-local" step="1"
          max=${LATEST} />
        <${FormField}
          form=${form} name="key" problem=${problem} label=${t("enqueue.key")} hint=${t("enqueue.key.hint")}
          autocapitalize="none" spellcheck=${false} />
      </div>
      <${FormField}
        form=${form} name="headers" as="textarea" class="short" rows="2" problem=${problem}
        label=${t("job.headers")} hint=${t("enqueue.headers.hint")} spellcheck=${false} />
      <div class="row"><${FormCheck} form=${form} name="rerun_lost">${t("job.rerun_lost")}<//></div>
    <//>`;
}
function argumentProblem(faults, problem, isMissing2, misfits) {
  const found = new Set(faults.map((fault2) => fault2.loc.join(".")));
  const given = problem?.errors.some((error) => error.loc[0] === "argument") ? problem.errors : misfits;
  const others = given.filter(
    (error) => !(isMissing2 && error.loc.length === 1) && !found.has(error.loc.slice(0, 2).join("."))
  );
  return faults.length || others.length ? new Problem(422, { errors: [...faults, ...others] }) : null;
}
function useToldOptions(form, contract, isCopy) {
  const filled = j(
    /** @type {Record<string, string>} */
    {}
  );
  const told4 = (
    /** @type {Record<string, unknown>} */
    isCopy ? {} : contract?.options ?? {}
  );
  const names = TOLD.filter((name) => told4[name] !== void 0 && told4[name] !== null);
  W2(() => {
    const changes = {};
    for (const name of isCopy ? [] : TOLD) {
      const before = filled.current[name] ?? BLANK3[name] ?? "";
      if (form.values[name] === before)
        changes[name] = names.includes(name) ? asTyped(told4[name]) : BLANK3[name] ?? "";
    }
    filled.current = { ...filled.current, ...changes };
    form.set(changes);
  }, [contract]);
  return names.length > 0;
}
function asTyped(value) {
  if (typeof value === "boolean") return value ? "yes" : "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}
var focusOn = (element) => element instanceof HTMLElement && element.focus();
var newKey = () => crypto.randomUUID?.() ?? String(Math.random()).slice(2);
function useKnownNames2() {
  const { data } = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 5e3,
    everyMs: 15e3
  });
  if (!data) return null;
  const able = data.workers.filter((worker) => worker.state === "fresh");
  return [...new Set(able.flatMap((worker) => worker.names))].sort().slice(0, 500);
}
function bodyOf(form) {
  const typed = (form["argument"] ?? "").trim();
  if (form["left_out"] === "argument" && !typed)
    return { problem: refusal3("argument", t("enqueue.argument.left_out")) };
  if (typed.includes(JSON.stringify(REDACTED)))
    return { problem: refusal3("argument", t("enqueue.redacted")) };
  const argument = typed || "null";
  let parsed2;
  try {
    parsed2 = parseExact(argument);
  } catch (error) {
    return {
      problem: refusal3("argument", t("enqueue.not_json"), `: ${error instanceof Error ? error.message : ""}`)
    };
  }
  const headers = {};
  for (const line of (form["headers"] ?? "").split("\n")) {
    if (!line.trim()) continue;
    const at2 = line.indexOf(":");
    if (at2 < 1) return { problem: refusal3("headers", t("enqueue.bad_header")) };
    const value = line.slice(at2 + 1).trim();
    if (value === REDACTED) return { problem: refusal3("headers", t("enqueue.redacted")) };
    headers[line.slice(0, at2).trim()] = value;
  }
  const asNumber2 = (name2) => {
    const text = (form[name2] ?? "").trim();
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text || null;
  };
  const asInstant = (name2) => editedInstant(form[name2] ?? "", null) || null;
  const tags = (form["tags"] ?? "").split(",").map((tag) => tag.trim()).filter(Boolean);
  const rest = {
    ...form["priority"] !== "0" && { priority: asNumber2("priority") },
    max_retry: asNumber2("max_retry"),
    timeout: asNumber2("timeout"),
    ...form["when"] === "delay" && { delay: asNumber2("delay") },
    ...form["when"] === "run_at" && { run_at: asInstant("run_at") },
    ...form["expires_s"] && { expires_s: asNumber2("expires_s") },
    ...form["expires_at"] && { expires_at: asInstant("expires_at") },
    ...tags.length && { tags },
    ...form["key"] && { key: form["key"] },
    ...Object.keys(headers).length && { headers },
    ...form["requires"] && { requires: labelsIn(form["requires"]) },
    ...form["keep_result"] && { keep_result: true },
    ...form["rerun_lost"] && { rerun_lost: true }
  };
  const name = (form["name"] ?? "").trim();
  return {
    text: `{"name":${JSON.stringify(name)},"argument":${argument},${toJson(rest).slice(1)}`,
    body: { name, argument: parsed2, ...rest }
  };
}
var refusal3 = (field, title2, more = "") => new Problem(422, { title: title2, errors: [{ loc: [field], msg: title2 + more }] });
function formOf2(job) {
  const spec = specOf(job);
  const isArgumentLeftOut = isArgumentIncomplete(job);
  const headers = Object.entries(job.headers).filter(([, value]) => value !== REDACTED);
  return {
    ...BLANK3,
    name: spec.name,
    argument: isArgumentLeftOut ? "" : toJson(spec.argument, 2),
    priority: String(job.priority),
    max_retry: String(job.max_retry),
    timeout: String(job.timeout),
    tags: job.tags.join(", "),
    headers: headers.map(([key, value]) => `${key}: ${value}`).join("\n"),
    requires: labelsText(job.requires),
    keep_result: job.keep_result ? "yes" : "",
    left_out: isArgumentLeftOut ? "argument" : job.headers_redacted ? "headers" : ""
  };
}
function usePreview2(text) {
  const [state, setState] = E2(
    /** @type {Previewed} */
    {
      constraints: null,
      misfits: [],
      problem: null
    }
  );
  W2(() => {
    if (!text || text.startsWith('{"name":"",')) {
      setState({ constraints: null, misfits: [], problem: null });
      return void 0;
    }
    const aborter = new AbortController();
    const timer2 = setTimeout(() => {
      call("POST", "api/jobs/preview", { text, signal: aborter.signal }).then(
        (answer) => setState({ constraints: answer.constraints, misfits: answer.misfits, problem: null }),
        (error) => {
          if (error instanceof Problem) setState({ constraints: null, misfits: [], problem: error });
        }
      );
    }, PREVIEW_MS2);
    return () => {
      clearTimeout(timer2);
      aborter.abort();
    };
  }, [text]);
  return state;
}
function InUse({ name }) {
  const { data } = useResource(
    (signal) => get(`api/constraints/${encodeURIComponent(name)}`, {}, signal),
    [name],
    {
      events: ["jobs", "constraints"],
      leastMs: 2e3,
      everyMs: 1e4
    }
  );
  if (!data || data.key || data.concurrency === null) return null;
  const used = (data.weight ? data.usage.running_units : data.usage.running) ?? 0;
  const text = t("enqueue.in_use", { used, most: data.concurrency });
  return html`<${Badge} kind=${used >= data.concurrency ? "warn" : "off"}>${text}<//>`;
}
function Preview3({ preview, isReady }) {
  return html`<section class="card preview" aria-labelledby="preview" aria-live="polite">
      <h2 id="preview">${t("enqueue.preview")}</h2>
      ${!isReady ? html`<p class="muted">${t("enqueue.preview.wait")}</p>` : preview.problem ? html`<${ErrorBox} problem=${preview.problem} />` : preview.constraints === null ? html`<p class="muted">${t("loading")}</p>` : preview.constraints.length === 0 ? html`<p class="muted">${t("enqueue.preview.none")}</p>` : html`<ul class="plain">
                    ${preview.constraints.map(
    (one) => html`<li key=${one.name} class="preview-item">
                          <a href=${href("constraints", { name: one.name })}>
                            <strong>${visible(one.name)}</strong>
                          </a> ${one.mode === "shadow" && html`<${Badge}>${t("enqueue.shadow")}<//>`} ${one.limits.paused && html`<${Badge} kind="warn">${t("enqueue.paused")}<//>`} ${!one.key && html`<${InUse} name=${one.name} />`}
                          ${one.key && html`<br /><span class="muted">${visible(one.key)} = <${Text} value=${one.key_value} max=${120} /></span>`}
                          <br />
                          ${limitTexts({ ...one.limits, max_backlog: one.max_backlog }).map(
      (text) => html`<span>${text}</span> `
    )}
                        </li>`
  )}
                  </ul>`}
    </section>`;
}

// identity/pages/login.js
var PROBLEMS = [
  "login_expired",
  "login_denied",
  "id_token_invalid",
  "no_role",
  "no_login_name",
  "provider_unavailable",
  "too_many_logins",
  "store_unavailable"
];
var QUESTION = /^callbacks\/[A-Za-z0-9_-]{54}$/;
function questionAfter() {
  const { page, query } = parseRoute(location.hash);
  const then = page === "login" ? query["then"] : void 0;
  return then !== void 0 && QUESTION.test(then) ? then : null;
}
function Page24({ session: session2, query, onSession }) {
  const question = questionAfter();
  const isIn2 = session2.role !== null;
  W2(() => {
    if (isIn2 && question !== null) location.replace(urlOf(question));
  }, [isIn2, question]);
  const problem = location.hash.startsWith("#/login") ? query["problem"] : void 0;
  return html`<div class="login card"><h1>${t("nav.login")}</h1>
    ${problem && html`<div class="error-box" role="alert"><p>${t(PROBLEMS.includes(problem) ? `login.problem.${problem}` : "login.problem")}</p></div>`}
    <${ByProvider} session=${session2} /><${LoginForm} session=${session2} onSession=${onSession} /></div>`;
}
function LoginDialog({ session: session2, onSession, onClose }) {
  return html`<${Dialog} title=${t("login.again")} onClose=${onClose}>
      <p>${t("login.again.text")}</p><${ByProvider} session=${session2} onSession=${onSession} />
      <${LoginForm} session=${session2} onSession=${onSession} />
    <//>`;
}
function ByProvider({ session: session2, onSession }) {
  W2(() => {
    if (!onSession) return void 0;
    const look2 = async () => {
      try {
        const now = await fetchSession();
        if (now.role !== null) onSession(now);
      } catch {
      }
    };
    addEventListener("focus", look2);
    return () => removeEventListener("focus", look2);
  }, []);
  const elsewhere = { target: onSession ? "_blank" : void 0, rel: onSession ? "noopener" : void 0 };
  const proxy = session2.login_url !== null && html`<p><a class="button primary" href=${session2.login_url} ...${elsewhere}>${t("login.proxy")}</a></p>`;
  if (session2.login_provider === null) return proxy;
  const page = location.hash.startsWith("#/login") && questionAfter() === null ? "" : location.hash;
  return html`${proxy}
    <p>
      <a class="button primary" href=${urlOf("api/login/oidc", { page })} ...${elsewhere}>
        ${t("login.provider", { name: visible(session2.login_provider) })}
      </a>
    </p>`;
}
function LoginForm({ session: session2, onSession }) {
  const [chosen, setByUser] = E2(
    /** @type {boolean | null} */
    null
  );
  const isByUser = session2.login_by_user && chosen !== false;
  const [problem, setProblem] = E2(
    /** @type {Problem | null} */
    null
  );
  const [isBusy, setBusy] = E2(false);
  const form = j(
    /** @type {HTMLFormElement | null} */
    null
  );
  W2(() => {
    form.current?.querySelector("input")?.focus();
  }, [isByUser]);
  const submit = async (event) => {
    event.preventDefault();
    const data = new FormData(form.current ?? void 0);
    const field = (name) => String(data.get(name) ?? "");
    setBusy(true);
    setProblem(null);
    try {
      const now = await logIn(
        isByUser ? { user: field("user"), password: field("password") } : { token: field("token").trim() }
      );
      const question = questionAfter();
      if (question !== null) {
        location.assign(urlOf(question));
        return;
      }
      onSession(now);
      if (location.hash.startsWith("#/login")) location.hash = "#/overview";
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  return html`${session2.login_by_user && html`<div class="row" role="group" aria-label=${t("login.by")}>
      <${Button} class="small" aria-pressed=${String(isByUser)} onClick=${() => setByUser(true)}>${t("login.by_user")}<//>
      <${Button} class="small" aria-pressed=${String(!isByUser)} onClick=${() => setByUser(false)}>${t("login.by_token")}<//></div>`}
    <form ref=${form} onSubmit=${submit} class="stack">
      ${isByUser ? html`<${Field} key="user" label=${t("login.user")} problem=${problem} path="user">
              ${(a2) => html`<input ...${a2} name="user" required maxlength="200" autocomplete="username" autocapitalize="none" spellcheck=${false} />`}
            <//>
            <${Field} key="password" label=${t("login.password")} problem=${problem} path="password">
              ${(a2) => html`<input ...${a2} name="password" type="password" required maxlength="1024" autocomplete="current-password" />`}
            <//>` : html`<${Field}
              key="token" label=${t("login.token")} hint=${t("login.token.hint")} problem=${problem}
              path="token">
              ${(a2) => html`<input ...${a2} name="token" type="password" required maxlength="512" autocomplete="off" spellcheck=${false} />`}
            <//>`}
      <${ErrorBox} problem=${problem} />
      <button class="button primary" disabled=${isBusy}>${t("nav.login")}</button>
    </form>`;
}

// shell/app.js
var ENTRIES = [
  { page: "overview", key: "o", scope: "read", group: 0 },
  { page: "jobs", key: "j", scope: "read", group: 0 },
  { page: "failures", key: "f", scope: "read", group: 0 },
  { page: "names", key: "n", scope: "read", group: 0 },
  { page: "batches", key: "b", scope: "read", group: 0 },
  { page: "constraints", key: "c", scope: "read", group: 1 },
  { page: "definitions", key: "d", scope: "read", group: 1 },
  { page: "calendars", key: "k", scope: "read", group: 1 },
  { page: "events", key: "v", scope: "read", group: 1 },
  { page: "challenges", key: "h", scope: "read", group: 1 },
  { page: "notices", key: "i", scope: "read", group: 1 },
  { page: "targets", key: "p", scope: "read", group: 1 },
  { page: "workers", key: "w", scope: "read", group: 1 },
  { page: "masters", key: "m", scope: "read", group: 1 },
  { page: "namespaces", key: "N", scope: "read", group: 1 },
  { page: "incidents", key: "r", scope: "read", group: 1 },
  { page: "enqueue", key: "e", scope: "push", group: 2 },
  { page: "audit", key: "a", scope: "operate", group: 2 },
  { page: "settings", key: "s", scope: "read", group: 2 },
  { page: "access", key: "t", scope: "admin", group: 2 },
  { page: "personal_data", key: "x", scope: "admin", group: 2 }
];
var COMPONENTS = {
  overview: Page,
  jobs: Page2,
  job: Page3,
  names: Page4,
  failures: Page5,
  batches: Page6,
  constraints: Page7,
  definitions: Page8,
  calendars: Page9,
  events: Page10,
  challenges: Page20,
  notices: Page21,
  targets: Page22,
  workers: Page11,
  masters: Page12,
  namespaces: Page13,
  incidents: Page14,
  personal_data: Page15,
  audit: Page16,
  settings: Page17,
  access: Page18,
  account: Page19,
  enqueue: Page23,
  login: Page24
};
function App() {
  const route = useRoute();
  const { session: session2, problem, isIn: isIn2, offered, refresh, enter, enterAgain, decline, leave } = useSession();
  const [isHelpOpen, setHelpOpen] = E2(false);
  const [isPaletteOpen, setPaletteOpen] = E2(false);
  const [isSwitching, setSwitching] = E2(false);
  const [isMenuOpen, setMenuOpen] = E2(false);
  const lang = useAppearance();
  const page = isIn2 ? route.page : "login";
  const hasSeveral = useNamespaces().length > 1;
  W2(() => {
    if (isElsewhere(route.page)) location.replace(href(
      /** @type {PageName} */
      route.page,
      route.query
    ));
  }, [route.page]);
  usePageTitle(page ? t(`nav.${page}`) : t("error.no_page"));
  W2(() => {
    setMenuOpen(false);
  }, [page, lang]);
  const oldness = useOldness();
  const openHelp = () => setHelpOpen(true);
  const openPalette = () => setPaletteOpen(true);
  useShortcuts(ENTRIES, openHelp, openPalette);
  if (session2 === null)
    return html`<main class="boot-box">${problem ? html`<${ErrorBox} problem=${problem} onRetry=${refresh} />` : html`<${Loading} />`}</main>`;
  const entries = ENTRIES.filter(
    (entry2) => may(session2, entry2.page === "namespaces" && !hasSeveral ? "admin" : entry2.scope)
  );
  return html`<a
      class="skip" href="#main" onClick=${(e2) => {
    e2.preventDefault();
    document.getElementById("main")?.focus();
  }}>
      ${t("skip")}
    </a>
    <div class=${`shell ${isMenuOpen ? "menu-open" : ""} ${isIn2 ? "" : "logged-out"}`}>
      <${Header}
        session=${isIn2 ? session2 : null} isMenuOpen=${isMenuOpen} onMenu=${() => setMenuOpen(!isMenuOpen)}
        onSwitch=${() => setSwitching(true)} onPalette=${openPalette} onHelp=${openHelp} onLeave=${leave} />
      ${isIn2 && html`<${Navigation} entries=${entries} page=${page} />`}
      <main
        id="main" tabindex="-1" class=${oldness ? "is-old" : ""} style=${{ "--age": JSON.stringify(oldness) }}>
        ${isIn2 && html`<${FreshnessLine} />`}
        ${isIn2 && may(session2, "read") && html`<${ActionsUnderWay} mayOperate=${may(session2, "operate")} />`}
        ${page === null ? html`<h1>${t("error.no_page")}</h1><p><a href=${href("overview")}>${t("nav.overview")}</a></p>` : html`<${PageHost} key=${page} name=${page} query=${route.query} session=${session2} onSession=${enter} />`}
      </main>
    </div>
    ${isSwitching && isIn2 && html`<${NamespaceChoice} page=${page} onClose=${() => setSwitching(false)} />`}
    ${isPaletteOpen && isIn2 && html`<${Palette} entries=${entries} session=${session2} onHelp=${openHelp} onClose=${() => setPaletteOpen(false)} />`}
    ${offered && html`<${LoginDialog} session=${offered} onSession=${enterAgain} onClose=${decline} />`}
    ${isHelpOpen && html`<${Help} entries=${entries} onClose=${() => setHelpOpen(false)} />`}
    <${PauseHost} />
    <${Toasts} />`;
}
function useAppearance() {
  const [lang] = usePref("language", null);
  const [theme] = usePref("theme", "auto");
  W2(() => {
    document.documentElement.lang = language();
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [lang, theme]);
  return lang;
}
function Navigation({ entries, page }) {
  return html`<nav id="nav" class="side" aria-label=${t("nav")}>
      ${[0, 1, 2].map(
    (group) => html`<ul key=${group}>
              ${entries.filter((entry2) => entry2.group === group).map(
      (entry2) => html`<li key=${entry2.page}>
                      <a
                        href=${href(entry2.page)}
                        aria-current=${entry2.page === page || entry2.page === "jobs" && page === "job" ? "page" : void 0}>
                        <${Icon} name=${entry2.page} />${t(`nav.${entry2.page}`)}
                      </a>
                    </li>`
    )}
            </ul>`
  )}<${Language} class="narrow-only" />
    </nav>`;
}
function PageHost({ name, query, session: session2, onSession }) {
  const [fault2, resetFault] = G2();
  if (fault2)
    return html`<div class="error-box" role="alert">
        <p><strong>${t("error.page")}</strong></p><pre>${visible(String(fault2)).slice(0, 500)}</pre>
        <${Button} onClick=${resetFault}>${t("error.retry")}<//>
      </div>`;
  return html`<${COMPONENTS[name]} query=${query} go=${go} session=${session2} onSession=${onSession} />`;
}
var root = document.getElementById("app");
if (root) {
  root.textContent = "";
  de(html`<${App} />`, root);
}
