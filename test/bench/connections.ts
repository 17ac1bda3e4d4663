import type { Series } from './chart.ts';
import { BARE, CONNECTIONS, CRUD, postName, SERVICE } from './names.ts';
import { cpu, type Measure, median, p50, p99, perSecond, type Results } from './results.ts';

/** The medians of POST over connections, as rows of a table. */
export function connectionsTable(results: Results, servers: readonly string[]): Record<string, string>[] {
  return CONNECTIONS.map((connections) => {
    const each = (measure: Measure, digits: number): string =>
      servers
        .map((name) => median(results.values(postName(name, connections), measure)).toFixed(digits))
        .join(' · ');
    const ratio = (to: string, measure: Measure): string =>
      median(results.ratios(postName(SERVICE, connections), postName(to, connections), measure)).toFixed(2);
    return {
      connections: `${connections}`,
      [`requests/s: ${servers.join(' · ')}`]: each(perSecond, 0),
      'p50 ms': each(p50, 1),
      'p99 ms': each(p99, 1),
      [`${SERVICE} / ${BARE}`]: ratio(BARE, perSecond),
      [`CPU: ${SERVICE} / ${BARE}`]: ratio(BARE, cpu),
      [`p99: ${SERVICE} / ${BARE}`]: ratio(BARE, p99),
      [`${SERVICE} / ${CRUD}`]: ratio(CRUD, perSecond),
    };
  });
}

/** The same for a chart. */
export function connectionsSeries(results: Results, servers: readonly string[]): Series[] {
  return servers.map((name) => ({
    name,
    points: CONNECTIONS.map((connections) => {
      const value = (measure: Measure): number =>
        median(results.values(postName(name, connections), measure));
      return { connections, perSecond: value(perSecond), p50: value(p50), p99: value(p99) };
    }),
  }));
}
