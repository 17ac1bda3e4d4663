import autocannon from 'autocannon';
import { type Contender, cpuTime } from './contender.ts';

/** Requests per second, and the server's CPU time per request, in microseconds. */
export type Rate = { perSecond: number; cpu: number; p50: number; p99: number };

type Requests = Parameters<typeof autocannon>[0]['requests'];
type Setup = NonNullable<NonNullable<Requests>[number]['setupRequest']>;

const CONNECTIONS = 64;

/** Larger than the IDs of earlier runs against the same server. */
let nextId = Date.now() * 1_000;

/** Creates plants with new IDs, for one user after the other. */
export function postPlants(contender: Contender, tokens: string[], seconds: number): Promise<Rate> {
  return load(contender, seconds, (request) => {
    const id = nextId++;
    const authorization = `Bearer ${tokens[id % tokens.length]}`;
    const headers = { authorization, 'content-type': 'application/json' };
    const body = `{"id":${id},"name":"Fern number ${id}","tag":"indoor"}`;
    return { ...request, method: 'POST', headers, body };
  });
}

/** Lists 100 plants, for one user after the other. */
export function listPlants(contender: Contender, tokens: string[], seconds: number): Promise<Rate> {
  let next = 0;
  return load(contender, seconds, (request) => {
    const authorization = `Bearer ${tokens[next++ % tokens.length]}`;
    return { ...request, method: 'GET', headers: { authorization } };
  });
}

async function load(contender: Contender, seconds: number, setupRequest: Setup): Promise<Rate> {
  const before = cpuTime(contender);
  const result = await autocannon({
    url: `${contender.url}/plants?limit=100`,
    connections: CONNECTIONS,
    duration: seconds,
    requests: [{ setupRequest }],
  });
  const failed = result.non2xx + result.errors + result.timeouts;
  if (failed > 0) throw new Error(`${failed} of the requests to ${contender.url} failed`);
  return {
    perSecond: result['2xx'] / result.duration,
    cpu: (1_000 * (cpuTime(contender) - before)) / result['2xx'],
    p50: result.latency.p50,
    p99: result.latency.p99,
  };
}
