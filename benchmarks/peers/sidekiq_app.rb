# Sidekiq: `sidekiq -r sidekiq_app.rb` runs, `ruby sidekiq_app.rb COUNT` pushes, in bulks of 1,000.
# `ruby sidekiq_app.rb COUNT RATE` pushes one by one, RATE a second; the worker writes how long each one waited.
require "json"
require "sidekiq"

ARGUMENT = "x" * 98

$count = 0

class Noop
  include Sidekiq::Worker
  sidekiq_options retry: false

  def perform(argument)
    $count += 1
  end
end

class Lone
  include Sidekiq::Worker
  sidekiq_options retry: false

  def perform(pushed_s)
    $count += 1
    waited_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) - pushed_s
    ($waits ||= File.open(ENV.fetch("WAITS_FILE"), "ab").tap { |file| file.sync = true }) << [waited_s].pack("E")
  end
end

Sidekiq.configure_server do |config|
  config.redis = { url: ENV.fetch("REDIS_URL") }
  config.logger.level = Logger::WARN
  # The one writer of the file; a count that is a few milliseconds old does no harm.
  Thread.new do
    loop do
      File.open(ENV.fetch("COUNT_FILE"), "r+b") { |file| file.write([$count].pack("q<")) }
      sleep 0.01
    end
  end
end

Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }

if $PROGRAM_NAME == __FILE__
  left = Integer(ARGV.fetch(0))
  before = Process.times
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  rate = Float(ARGV.fetch(1, 0))
  left.times do |number|
    break if rate.zero?
    due_s = began + number / rate
    sleep([due_s - Process.clock_gettime(Process::CLOCK_MONOTONIC), 0].max)
    Lone.perform_async(Process.clock_gettime(Process::CLOCK_MONOTONIC))
    left -= 1
  end
  while left.positive?
    size = [left, 1000].min
    Sidekiq::Client.push_bulk("class" => Noop, "args" => Array.new(size) { [ARGUMENT] })
    left -= size
  end
  after = Process.times
  cpu = after.utime + after.stime - before.utime - before.stime
  puts JSON.generate(began_s: began, ended_s: Process.clock_gettime(Process::CLOCK_MONOTONIC), cpu_s: cpu)
end
