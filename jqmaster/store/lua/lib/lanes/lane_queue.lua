-- The queue of open lanes, in the order in which a claim serves them. An item has the score and the order of the first
-- job of its lane.
local lane_queue = (function()
  -- The items in reverse order: the last item is served next.
  local items = {}

  local function comes_before(score, order, item)
    return score < item.score or (score == item.score and order < item.order)
  end

  -- Inserts an item at its position in the order.
  local function put(item)
    local low, high = 1, #items + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if comes_before(item.score, item.order, items[middle]) then low = middle + 1 else high = middle end
    end
    table.insert(items, low, item)
  end

  -- Appends an item. The caller calls `sort` afterwards.
  local function add(item)
    items[#items + 1] = item
  end

  local function sort()
    table.sort(items, function(a, b) return comes_before(b.score, b.order, a) end)
  end

  local function take_first()
    return table.remove(items)
  end

  -- Returns the next item; nil: the queue is empty.
  local function first()
    return items[#items]
  end

  return {comes_before = comes_before, put = put, add = add, sort = sort, take_first = take_first, first = first}
end)()
