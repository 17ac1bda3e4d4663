import {
  type Attributes,
  isSpanContextValid,
  ProxyTracer,
  ROOT_CONTEXT,
  type SpanContext,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import type { RecordedEvent } from '../eventStore.ts';

// Spans of OpenTelemetry, if the process has loaded an SDK; this code loads none.

const SCOPE = '@event-sourced/event-log';

/** Runs an append as a span of the active trace, if there is one. */
export function traceAppend<T>(append: () => Promise<T>): Promise<T> {
  if (!trace.getActiveSpan()) return append();
  return trace.getTracer(SCOPE).startActiveSpan('append', async (span) => {
    try {
      return await append();
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: (error as Error).name });
      throw error;
    } finally {
      span.end();
    }
  });
}

/**
 * Records what happened to events, from a time of `performance.now()` until now: a span for each event, in the trace
 * that its metadata names.
 */
export function traceEvents(
  name: 'commit' | 'fold',
  events: readonly Pick<RecordedEvent, 'metadata'>[],
  startTime: number,
  attributes: Attributes,
): void {
  const tracer = trace.getTracer(SCOPE);
  if (tracer instanceof ProxyTracer) return; // no SDK
  for (const { metadata } of events) {
    const parent = toSpanContext(metadata);
    if (!parent) continue;
    const context = trace.setSpanContext(ROOT_CONTEXT, parent);
    tracer.startSpan(name, { startTime, attributes }, context).end(performance.now());
  }
}

/** The span that an event's `traceparent` (W3C Trace Context) names, if it is valid. */
function toSpanContext(metadata: unknown): SpanContext | undefined {
  const { traceparent } = (metadata ?? {}) as { traceparent?: unknown };
  if (typeof traceparent !== 'string') return undefined;
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const parent = { traceId, spanId, traceFlags, isRemote: true };
  return isSpanContextValid(parent) ? parent : undefined;
}
