# frozen_string_literal: true

# A worker in Ruby that masters push jobs to. Nothing but the standard library and the gem msgpack (Debian: ruby-msgpack).
#
#   JQMASTER_URL=http://127.0.0.1:8080 ruby examples/ruby/worker.rb
#   jqmaster conformance worker --run "ruby examples/ruby/worker.rb"

require "json"
require "msgpack"
require "net/http"
require "openssl"
require "securerandom"
require "socket"
require "time"

MASTER = URI(ENV.fetch("JQMASTER_URL", "http://127.0.0.1:8080"))
TOKEN = ENV["JQMASTER_TOKEN"]
MAX_JOBS = 4
GRACE_S = 2
MAX_BODY = 32 * 1024 * 1024

# A handler raises this to end its job for good.
class Discard < StandardError; end

# Raised in the thread of a job to stop it.
class Stop < Exception; end # rubocop:disable Lint/InheritException

HANDLERS = {
  "conformance.echo" => ->(argument) { argument },
  "conformance.sleep" => ->(seconds) { sleep(seconds) && nil },
  "conformance.fail" => lambda do |argument|
    raise argument["retry"] ? StandardError : Discard, argument["message"]
  end
}.freeze

# CLOCK_BOOTTIME also counts while the machine sleeps, as leases do.
CLOCK = Process.const_defined?(:CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC
def now = Process.clock_gettime(CLOCK)

# Host names and digests are binary strings in Ruby. MessagePack would encode them as `bin`, which is not text.
def text(string) = string.dup.force_encoding(Encoding::UTF_8)

def unpack(bytes)
  factory = MessagePack::Factory.new
  factory.unpacker(allow_unknown_ext: true).then do |unpacker|
    values = []
    unpacker.feed_each(bytes) { |value| values << value }
    raise ArgumentError, "not one value" unless values.size == 1

    values.first
  end
end

Answer = Struct.new(:status, :body, :retry_after)

# Makes one call to the master, with a new connection. Status 0: no answer.
def call(method, path, body, timeout)
  request = Net::HTTP.const_get(method.capitalize).new(path)
  request["Content-Type"] = request["Accept"] = "application/msgpack"
  request["Authorization"] = "Bearer #{TOKEN}" if TOKEN
  request.body = body.to_msgpack if body
  http = Net::HTTP.new(MASTER.host, MASTER.port, nil)
  http.use_ssl = MASTER.scheme == "https"
  http.open_timeout = http.read_timeout = http.write_timeout = timeout
  http.max_retries = 0
  answer = http.start { http.request(request) }
  is_ours = answer["Content-Type"].to_s.start_with?("application/msgpack")
  fields = is_ours && answer.body ? unpack(answer.body) : {}
  Answer.new(answer.code.to_i, fields.is_a?(Hash) ? fields : {}, answer["Retry-After"].to_f)
rescue StandardError
  Answer.new(0, {}, 0.0)
end

def pause(tries, retry_after = 0.0) = sleep(retry_after + rand * [5.0, 0.1 * 2**[tries, 10].min].min)
def transient?(status) = [0, 401, 403, 408, 425, 429].include?(status) || status >= 500

# The store's time, computed from answers. Each answer gives it within its round trip. Clocks drift by 0.05 %.
class StoreClock
  attr_reader :stale_fence

  def initialize = @stale_fence = 0

  def learn(store_ms, sent_s, fence)
    at = now
    low = store_ms - at * 1000
    high = store_ms + 1 - sent_s * 1000
    went_back = false
    if @at
      old_low, old_high = bounds(at)
      went_back = high < old_low
      low, high = [low, old_low].max, [high, old_high].min if [low, old_low].max <= [high, old_high].min
    end
    @stale_fence = went_back ? fence : [@stale_fence, fence].min
    @at, @low, @high = at, low, high
  end

  # Older answers say nothing: the store's clock may have been set while this process was suspended.
  def latest_ms(within_s) = @at && now - @at <= within_s ? now * 1000 + bounds(now)[1] : Float::INFINITY
  def earliest_ms = @at ? [0, (now * 1000 + bounds(now)[0]).floor].max : 0

  private

  def bounds(at)
    drift = (at - @at).abs * 0.5
    [@low - drift, @high + drift]
  end
end

# A claimed job. running: it has a slot. owed: heartbeats name it.
Claim = Struct.new(:job, :thread, :stopping, :running, :owed, :named, :deadline, :lease_end, keyword_init: true)

class Worker
  def initialize
    @lock = Monitor.new
    @clock = StoreClock.new
    @claims = {}
    @seen = {}
    @outbox = {}
    @nonces = {}
    @epoch = 0
    @drain_ordered = @leaving = @registering = false
    @beat_now = Queue.new
  end

  def run
    @server = TCPServer.new("127.0.0.1", 0)
    @url = "http://127.0.0.1:#{@server.addr[1]}"
    start { serve_all }
    register
    start { watch }
    start { send_results }
    %w[TERM INT].each { |name| trap(name) { Thread.new { finish } } }
    heartbeats
  end

  private

  def start(&) = Thread.new(&).tap { |thread| thread.abort_on_exception = true }
  def margin(lease_s) = [2.0, lease_s / 10].min
  def in_slots = @claims.values.select(&:running)
  def draining? = @leaving || @drain_ordered
  def room = draining? ? 0 : [0, [MAX_JOBS - in_slots.size, 1000 - @claims.size].min].max

  # --- registration

  def register
    @registering = true
    tries = 0
    loop do
      sent = now
      @secret = SecureRandom.hex(32) # a new one for each registration
      answer = call("post", "/api/workers", {
                      url: @url, names: HANDLERS.keys, max_jobs: MAX_JOBS, secret: @secret, node_id: text(Socket.gethostname),
                      pid: Process.pid, labels: {}, version: "1"
                    }, 10)
      if answer.status == 201
        @lock.synchronize do
          @clock.learn(answer.body["store_time_ms"], sent, 0)
          @epoch = [@epoch, answer.body["epoch"]].max
          @lease_s, @interval_s = answer.body.values_at("lease_s", "heartbeat_interval_s")
          @drain_ordered = false
          @id = answer.body["worker_id"]
        end
        warn "registered as #{@id}"
        break
      end
      warn "not registered: #{answer.status} #{answer.body.values_at('code', 'detail').join(' ')}"
      pause(tries += 1, [answer.retry_after, 0.2].max)
    end
    @registering = false
  end

  # Registers again after masters forgot this worker. Its running jobs then no longer belong to it. Only the heartbeat
  # thread calls this.
  def rejoin
    @registering = true
    @lock.synchronize { @claims.each_value { |claim| stop(claim, "lost") } }
    sleep 0.02 while @lock.synchronize { in_slots.any? { |claim| now < claim.lease_end } }
    register
  end

  # --- offers

  def judge(job, is_stale)
    latest_ms = @clock.latest_ms(@lease_s)
    left_s = (job["lease_until_ms"] - latest_ms) / 1000.0 - margin(@lease_s)
    return "stale_epoch" if is_stale
    return "unknown_name" unless HANDLERS.key?(job["name"]) && job["phase"] == "run"
    return "draining" if draining?
    return "too_late" if latest_ms > job["not_after_ms"] || left_s <= 0 || job["fence"] <= @clock.stale_fence
    return "duplicate" if in_slots.any? { |claim| claim.job["job_id"] == job["job_id"] }
    return "busy" if room.zero?

    claim = Claim.new(job:, running: true, owed: true, named: false, deadline: now + job["timeout"], lease_end: now + left_s)
    @claims[job["token"]] = claim
    claim.thread = Thread.new { work(claim) }
    "accepted"
  end

  def job?(job)
    job.is_a?(Hash) && %w[job_id token name phase].all? { |field| job[field].is_a?(String) } &&
      %w[attempt fence not_after_ms lease_until_ms].all? { |field| job[field].is_a?(Integer) } &&
      job["timeout"].is_a?(Numeric) && job["timeout"].positive? && job.key?("argument")
  end

  # Returns nil if the push is not valid, and no job was started.
  def offer(push)
    epoch, jobs = push.values_at("epoch", "jobs")
    return unless push["worker_id"] == @id && epoch.is_a?(Integer) && jobs.is_a?(Array) && jobs.all? { |job| job?(job) }

    is_stale = epoch < @epoch
    @epoch = [@epoch, epoch].max
    @seen.shift while @seen.any? && @seen.first[1][1] < now - 2 * @lease_s - 10
    accepted = []
    rejected = []
    jobs.each do |job|
      verdict, = @seen[job["token"]] ||= [judge(job, is_stale), now]
      if verdict == "accepted"
        accepted << job["job_id"]
      else
        rejected << { job_id: job["job_id"], reason: verdict, retry_after: nil }
      end
    end
    { accepted:, rejected: }
  end

  # --- jobs

  def work(claim)
    # A stop takes effect only while the handler runs, not before and not after.
    ending = Thread.handle_interrupt(Stop => :never) do
      value = Thread.handle_interrupt(Stop => :immediate) { HANDLERS[claim.job["name"]].call(claim.job["argument"]) }
      { type: "success", result: value }
    rescue Stop
      { type: "stopped" }
    rescue Exception => e # rubocop:disable Lint/RescueException
      failure("other", !e.is_a?(Discard), text(e.message))
    end
    @lock.synchronize do
      claim.running = false
      ending = { type: claim.stopping } if %w[canceled handed_back].include?(claim.stopping)
      @claims.delete(claim.job["token"]) if claim.stopping == "lost" && claim.named
      report(claim, ending) if claim.stopping.nil? || ending[:type] == claim.stopping
    end
  end

  def failure(reason, retryable, message)
    { type: "failure", reason:, should_retry: retryable, error: nil, message:, retry_after: nil }
  end

  def report(claim, ending)
    job_id, token = claim.job.values_at("job_id", "token")
    @outbox[token] = { job_id:, token:, finished_at: Time.now.utc.iso8601(3), **ending }
  end

  # `why`: canceled, timeout, handed_back or lost. After lost, nothing is reported.
  def stop(claim, why)
    return if !claim.running || claim.stopping == "lost" || (claim.stopping && why != "lost")

    claim.stopping = why
    claim.owed = why != "lost"
    claim.thread.raise(Stop)
    # Report at once: a handler that does not stop keeps its slot until it ends.
    report(claim, failure("timeout", true, "longer than #{claim.job['timeout']} s")) if why == "timeout"
  end

  def watch
    loop do
      sleep 0.02
      @lock.synchronize do
        in_slots.each do |claim|
          if now >= claim.lease_end then stop(claim, "lost")
          elsif now >= claim.deadline then stop(claim, "timeout")
          end
        end
      end
    end
  end

  # --- results

  def send_results
    tries = 0
    alone = false
    loop do
      batch = @lock.synchronize { @outbox.values.first(alone ? 1 : 500) }
      next sleep(0.02) if batch.empty? || @registering

      answer = call("post", "/api/workers/#{@id}/results", { results: batch }, 10)
      if answer.status == 200
        @lock.synchronize { settle(batch, answer.body["accepted"] + answer.body["stale"]) }
        tries = 0
        alone = false
      elsif answer.status == 404 || transient?(answer.status)
        @beat_now << true if answer.status == 404 # the answer to the heartbeat says this, too
        pause(tries += 1, answer.retry_after)
      elsif batch.size > 1
        alone = true
      else
        refused(batch.first, answer)
        pause(tries += 1)
      end
    end
  end

  def settle(batch, done)
    batch.select { |item| done.include?(item[:job_id]) }.each do |item|
      @outbox.delete(item[:token])
      claim = @claims[item[:token]] or next
      claim.owed = false
      @claims.delete(item[:token]) unless claim.running
    end
  end

  def refused(item, answer)
    said = failure("other", false, "the master refused the result: #{answer.body['detail'] || answer.status}")
    @lock.synchronize { @outbox[item[:token]] = item.slice(:job_id, :token, :finished_at).merge(said) }
  end

  # --- heartbeats

  # Returns the answer of the master; nil: no answer; :unknown: the master does not know this worker.
  def beat(asks: false)
    named, body = @lock.synchronize do
      # If a job that had begun was stopped before an answered heartbeat named its claim, the claim is named once more.
      named = @claims.values.select { |claim| claim.owed || (claim.stopping == "lost" && !claim.named) }.first(1000)
      running = named.map { |claim| claim.job.slice("job_id", "token") }
      body = { running:, free: room, as_of_ms: @clock.earliest_ms }
      [named, asks ? body.merge(asks_to_continue: true) : body]
    end
    sent = now
    answer = call("post", "/api/workers/#{@id}/heartbeat", body, asks ? 1 : [0.25, @lease_s / 4].max)
    return :unknown if answer.status == 404 && answer.body["code"] == "unknown_worker"
    return unless answer.status == 200

    @lock.synchronize { obey(answer.body, named, sent) }
    answer.body
  end

  def obey(told, named, sent)
    @clock.learn(told["store_time_ms"], sent, told["fence"] || 0)
    @epoch = [@epoch, told["epoch"]].max
    @interval_s = told["heartbeat_interval_s"] || @interval_s
    @lease_s = told["lease_s"] || @lease_s
    @drain_ordered = told["drain"]
    lost = told["lost"].map { |claim| claim["token"] }
    lease_s = (told["lease_until_ms"] - told["store_time_ms"]) / 1000.0
    named.each do |claim|
      claim.named = true
      if lost.include?(claim.job["token"]) then stop(claim, "lost")
      elsif lease_s.positive? then claim.lease_end = sent + lease_s - margin(lease_s)
      end
      @claims.delete(claim.job["token"]) if claim.stopping == "lost" && !claim.running
    end
    told["cancel"].each { |claim| @claims[claim["token"]]&.then { |found| stop(found, "canceled") } }
  end

  def heartbeats
    loop do
      began = now
      told = beat
      if told == :unknown then rejoin
      elsif told && told["detached"] then rejoin unless may_go_on?
      end
      rest = [0.01, @interval_s - (now - began)].max
      Thread.new { sleep(rest) && @beat_now << true } if @beat_now.empty?
      @beat_now.pop
      @beat_now.clear
    end
  end

  def may_go_on?
    warn "detached; asking whether it may continue"
    3.times.any? do |n|
      sleep 0.3 if n.positive?
      told = beat(asks: true)
      told.is_a?(Hash) && !told["detached"]
    end
  end

  # --- calls from masters

  def serve_all
    open = Queue.new
    512.times { open << true }
    loop do
      socket = @server.accept
      open.pop
      Thread.new do
        serve(socket)
      rescue IOError, SystemCallError, ArgumentError
        nil # cut off, too slow, or no HTTP
      ensure
        socket.close
        open << true
      end
    end
  end

  def serve(socket)
    socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    loop do
      # A connection may be idle between two requests, but not within a request.
      return unless socket.wait_readable(75)

      line = read_line(socket) or return
      method, target, version = line.split
      raise ArgumentError, "no HTTP" unless version&.start_with?("HTTP/1.")

      fields = Hash.new("")
      until (line = read_line(socket)).nil? || line.empty?
        name, value = line.split(":", 2)
        fields[name.downcase] = value.to_s.strip
      end
      length = fields["content-length"].to_i
      status, value, was_read = respond(method, target, fields, length, socket)
      keeps = (was_read || length.zero?) && fields["connection"].downcase != "close"
      write(socket, status, value, keeps)
      return unless keeps
    end
  end

  def write(socket, status, value, keeps)
    body = value.nil? ? "" : value.to_msgpack
    head = ["HTTP/1.1 #{status} #{status == 200 ? 'OK' : 'Other'}"]
    head << "Content-Type: application/msgpack" unless value.nil?
    head << "Content-Length: #{body.bytesize}" unless status == 204
    head << "Connection: close" unless keeps
    socket.write("#{head.join("\r\n")}\r\n\r\n".b + body.b)
  end

  def read_line(socket)
    line = socket.timeout_gets
    line&.delete_suffix("\r\n")
  end

  # Returns [status, value, whether the body was read].
  def respond(method, target, fields, length, socket)
    return [method == "GET" ? 204 : 405] if target == "/ping"

    if target == "/challenge"
      return [405] unless method == "POST"
      return [413] if length > 1024

      return [*prove(read_body(socket, length)), true]
    end
    job_id = target[%r{\A/jobs/([^/]+)/cancel\z}, 1]
    wanted = { "/status" => "GET", "/jobs" => "POST", "/drain" => "POST", "/resume" => "POST", "/detach" => "POST" }[target]
    wanted ||= "POST" if job_id
    return [404] unless wanted
    return [405] unless method == wanted

    # A push may arrive before the answer to the registration.
    100.times { @registering ? sleep(0.02) : break }
    return [401] unless signed?(method, target, fields, nil)
    return [413] if length > MAX_BODY

    body = read_body(socket, length)
    return [401, nil, true] unless signed?(method, target, fields, body)

    [*signed(target, job_id, fields, body), true]
  end

  def read_body(socket, length)
    deadline = now + 10 + length / 65_536.0
    body = String.new(capacity: length)
    while body.bytesize < length
      raise IOError, "too slow" unless socket.wait_readable([deadline - now, 0].max)

      body << socket.readpartial([length - body.bytesize, 65_536].min)
    end
    body
  end

  def signed?(method, target, fields, body)
    worker, timestamp, nonce, signature = %w[worker timestamp nonce signature].map { |name| fields["x-jq-#{name}"] }
    return false unless worker == @id && timestamp.match?(/\A\d{1,15}\z/) && nonce.match?(/\A[!-~]{8,128}\z/)
    return false unless signature.match?(/\Av1=\h{64}\z/) && (Time.now.to_f * 1000 - timestamp.to_i).abs <= 300_000
    return true if body.nil? # the checks that do not need the body

    said = [method, target, worker, timestamp, nonce, OpenSSL::Digest::SHA256.hexdigest(body)].join("\n")
    expected = "v1=#{OpenSSL::HMAC.hexdigest('SHA256', @secret, said)}"
    return false unless OpenSSL.secure_compare(expected, signature)

    @lock.synchronize do
      @nonces.shift while @nonces.any? && @nonces.first[1] < now - 600
      return false if @nonces.key?(nonce) || @nonces.size >= 100_000

      @nonces[nonce] = now
    end
    true
  end

  def prove(body)
    fields = unpack(body)
    nonce = fields.is_a?(Hash) ? fields["nonce"] : nil
    return [422] unless nonce.is_a?(String) && nonce.encoding == Encoding::UTF_8 && nonce.match?(/\A[A-Za-z0-9_-]{16,128}\z/)

    [200, { proof: text(OpenSSL::HMAC.hexdigest("SHA256", @secret, nonce)) }]
  rescue StandardError
    [400]
  end

  def signed(target, job_id, fields, body)
    return [200, status] if target == "/status"
    return [415] unless fields["content-type"].split(";").first.to_s.strip.downcase == "application/msgpack"

    begin
      value = unpack(body)
    rescue StandardError
      return [400]
    end
    return [422] unless value.is_a?(Hash)

    @lock.synchronize do
      return (answer = offer(value)) ? [200, answer] : [422] if target == "/jobs"

      order(target, job_id, value)
    end
  end

  def order(target, job_id, value)
    if (epoch = value["epoch"])
      return [422] unless epoch.is_a?(Integer)
      return [409] if epoch < @epoch

      @epoch = epoch
    end
    if job_id
      claim = @claims[value["token"]]
      return [404] unless claim&.running && claim.job["job_id"] == job_id

      stop(claim, "canceled")
    else
      @drain_ordered = target == "/drain" unless target == "/detach"
      @beat_now << true
    end
    [200, {}]
  end

  def status
    @lock.synchronize do
      running = @claims.values.select(&:owed).map { |claim| claim.job.slice("job_id", "token") }
      { worker_id: @id, running:, free: room, max_jobs: MAX_JOBS, names: HANDLERS.keys, draining: draining? }
    end
  end

  # --- the end

  def finish
    return if @leaving

    @leaving = true
    @beat_now << true
    wait_until(now + GRACE_S) { in_slots.empty? }
    @lock.synchronize { in_slots.each { |claim| stop(claim, "handed_back") } }
    # A job that does not stop is not handed back. Heartbeats name it until the process ends, and then it counts as
    # lost.
    wait_until(now + 2) { in_slots.empty? }
    sleep 0.02 until @lock.synchronize { @outbox.empty? }
    call("delete", "/api/workers/#{@id}", nil, 3)
    exit!(0)
  end

  def wait_until(deadline)
    sleep 0.02 until now > deadline || @lock.synchronize { yield }
  end
end

# Reads a line that ends in time and within 64 KiB.
class TCPSocket
  def timeout_gets
    line = +""
    deadline = now + 10
    until line.end_with?("\n")
      raise IOError, "too slow" unless wait_readable([deadline - now, 0].max)

      byte = read_nonblock(1, exception: false)
      return if byte.nil?

      line << byte unless byte == :wait_readable
      raise ArgumentError, "too long" if line.bytesize > 65_536
    end
    line
  end
end

Worker.new.run
