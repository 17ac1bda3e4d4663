import {
  BARE,
  CLIENT_ALONE,
  CRUD,
  getName,
  getOfOneName,
  ON_EVENTSTOREDB,
  postName,
  SERVICE,
  withFullLog,
} from './names.ts';
import { cpu, longestStall, p99, type Results } from './results.ts';

/** Adds what has a goal, as far as it was measured. `before` is the service of `--against`. */
export function addGoals(results: Results, before: string | undefined): void {
  const services = before === undefined ? [SERVICE] : [SERVICE, before];
  for (const service of services) {
    const [load, bare] = [postName(service), postName(BARE)];
    results.addRatio(`POST: ${service} / ${BARE}`, '≥ 0.8', load, bare);
    results.addRatio(`POST: CPU of a request, ${service} / ${BARE}`, '≤ 1.5', load, bare, cpu);
    results.addRatio(`POST: p99, ${service} / ${BARE}`, '≤ 3', load, bare, p99);
    results.addRatio(`POST: ${service} / ${CRUD}`, '≥ 4', load, postName(CRUD));
    results.addRatio(`POST: ${service}, full log / empty log`, '≥ 0.9', postName(withFullLog(service)), load);
    // The other way round, since times are compared.
    results.addRatio(
      `POST, 1 connection: time of ${service} / ${CRUD}`,
      '≤ 1.3',
      postName(CRUD, 1),
      postName(service, 1),
    );
    results.addFigure(
      `POST: longest event-loop stall, ms, ${service}`,
      '≤ 10',
      results.values(load, longestStall),
    );
  }
  results.addFigure(
    `POST: longest event-loop stall, ms, ${BARE}`,
    '',
    results.values(postName(BARE), longestStall),
  );
  for (const service of services) {
    results.addRatio(`GET: ${service} / ${BARE}`, '≥ 0.7', getName(service), getName(BARE));
    results.addRatio(`GET of one user: ${service} / ${BARE}`, '≥ 1.0', getOfOneName(service), getName(BARE));
  }
  if (before) {
    results.addRatio(`POST: ${SERVICE} / ${before}`, '', postName(SERVICE), postName(before));
    results.addRatio(
      `POST: CPU of a request, ${SERVICE} / ${before}`,
      '',
      postName(SERVICE),
      postName(before),
      cpu,
    );
    results.addRatio(`GET: ${SERVICE} / ${before}`, '', getName(SERVICE), getName(before));
    results.addRatio(
      `GET of one user: ${SERVICE} / ${before}`,
      '',
      getOfOneName(SERVICE),
      getOfOneName(before),
    );
  }
  const onServer = ON_EVENTSTOREDB;
  results.addRatio(
    'EventStoreDB: POST / append by the client alone',
    '≥ 0.85',
    postName(onServer),
    CLIENT_ALONE,
  );
  results.addRatio(
    'EventStoreDB: GET / GET on the embedded log',
    '≥ 0.9',
    getName(onServer),
    getName(SERVICE),
  );
}
