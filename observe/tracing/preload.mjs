// Sends spans by OTLP. Loaded before the service: NODE_OPTIONS='--import …/observe/tracing/preload.mjs'. Its settings are
// those of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and OTEL_RESOURCE_ATTRIBUTES.
import { isMainThread } from 'node:worker_threads';

// The service has no arguments; commands and health checks, which get the same variables, have some.
if (isMainThread && process.argv.length === 2) await import('./sdk.mjs');
