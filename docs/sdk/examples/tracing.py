# Shows: instrument, uninstrument
from opentelemetry.sdk.trace import TracerProvider

from worker_sdk.tracing import instrument, uninstrument

provider = TracerProvider()  # add the exporter of your collector
instrument(provider)  # once, before jobs are enqueued or handlers run
uninstrument()  # in tests
