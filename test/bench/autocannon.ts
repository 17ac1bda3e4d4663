import { fileURLToPath } from 'node:url';
import autocannon from 'autocannon';
import type { RequestContext } from './autocannonRequest.ts';
import type { Generator } from './generator.ts';

const SETUP_REQUEST = fileURLToPath(new URL('autocannonRequest.ts', import.meta.url));

/** autocannon in two workers, or one for one connection: it costs more than the server that it measures. */
export const autocannonGenerator: Generator = {
  name: 'autocannon, two workers',
  async send({ method, url, connections, seconds, ...rest }) {
    const workers = Math.min(2, connections);
    const initialContext: RequestContext = { ...rest, workers };
    const result = await autocannon({
      url,
      connections,
      duration: seconds,
      workers,
      initialContext,
      requests: [{ method, setupRequest: SETUP_REQUEST }],
    });
    const { errors, timeouts, non2xx: status } = result;
    const { p50, p99 } = result.latency;
    return {
      requests: result['2xx'],
      seconds: result.duration,
      p50,
      p99,
      failed: { errors, timeouts, status },
    };
  },
};
