import type { IncomingHttpHeaders } from 'node:http';
import { isSpanContextValid, TraceFlags, trace } from '@opentelemetry/api';

/** https://www.w3.org/TR/trace-context/#traceparent-header: version, trace ID, parent ID, flags. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-((?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16})-([\da-f]{2})(?![^-])/;
const LENGTH = 55;
const SAMPLED = 1;

/** The `traceparent` of the active span, if an SDK of OpenTelemetry is loaded; otherwise that of the request. */
export function activeTraceparent(headers: IncomingHttpHeaders): string | undefined {
  const active = trace.getActiveSpan()?.spanContext();
  if (!active || !isSpanContextValid(active)) return readTraceparent(headers);
  return `00-${active.traceId}-${active.spanId}-0${active.traceFlags & TraceFlags.SAMPLED}`;
}

/** The `traceparent` of a request, if it is valid; a later version is read as version 00. */
export function readTraceparent({ traceparent: text }: IncomingHttpHeaders): string | undefined {
  // Node joins repeated fields with a comma, which makes them invalid.
  const match = typeof text === 'string' ? TRACEPARENT.exec(text) : null;
  if (!match) return undefined;
  const [, version, ids, flags = ''] = match;
  if (version === '00') return text?.length === LENGTH ? (text as string) : undefined;
  return `00-${ids}-0${Number.parseInt(flags, 16) & SAMPLED}`;
}
