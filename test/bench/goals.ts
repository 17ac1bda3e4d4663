import {
  ADAPTER_ALONE,
  BARE,
  CLIENT_ALONE,
  CRUD,
  getName,
  getOfOneName,
  ON_EVENTSTOREDB,
  postName,
  WITH_METRICS,
  WITHOUT_METRICS,
  WITHOUT_TREE,
  withFullLog,
} from './names.ts';
import { cpu, longestStall, type Measure, p99, type Results } from './results.ts';

type Ratio = [name: string, goal: string, load: string, to: string, measure?: Measure];

const ratiosOf = (service: string): Ratio[] => [
  [`POST: ${service} / ${BARE}`, '≥ 0.8', postName(service), postName(BARE)],
  [`POST: CPU of a request, ${service} / ${BARE}`, '≤ 1.5', postName(service), postName(BARE), cpu],
  [`POST: p99, ${service} / ${BARE}`, '≤ 3', postName(service), postName(BARE), p99],
  [`POST: ${service} / ${CRUD}`, '≥ 4', postName(service), postName(CRUD)],
  // The other way round than the rates, since it is of times.
  [`POST, 1 connection: time of ${service} / ${CRUD}`, '≤ 1.3', postName(CRUD, 1), postName(service, 1)],
  [`POST: ${service}, full log / empty log`, '≥ 0.9', postName(withFullLog(service)), postName(service)],
  [`GET: ${service} / ${BARE}`, '≥ 0.7', getName(service), getName(BARE)],
  [`GET of one user: ${service} / ${BARE}`, '≥ 1.0', getOfOneName(service), getName(BARE)],
];

const changes = (service: string, before: string): Ratio[] => [
  [`POST: ${service} / ${before}`, '', postName(service), postName(before)],
  [`POST: CPU of a request, ${service} / ${before}`, '', postName(service), postName(before), cpu],
  [`POST: p99, ${service} / ${before}`, '', postName(service), postName(before), p99],
  [`GET: ${service} / ${before}`, '≥ 1', getName(service), getName(before)],
  [`GET of one user: ${service} / ${before}`, '≥ 1', getOfOneName(service), getOfOneName(before)],
];

const onEventStoreDb = (service: string): Ratio[] => [
  ['EventStoreDB: appends by the adapter / by the client alone', '≥ 0.85', ADAPTER_ALONE, CLIENT_ALONE],
  ['EventStoreDB: POST / appends by the client alone', '≥ 0.85', postName(ON_EVENTSTOREDB), CLIENT_ALONE],
  ['EventStoreDB: GET / GET on the embedded log', '≥ 0.9', getName(ON_EVENTSTOREDB), getName(service)],
];

const withTree = (service: string): Ratio[] => [
  ['POST: with the Merkle tree / without it', '≥ 0.9', postName(service), postName(WITHOUT_TREE)],
  [
    'POST: CPU of a request, with the Merkle tree / without it',
    '',
    postName(service),
    postName(WITHOUT_TREE),
    cpu,
  ],
  ['GET: with the Merkle tree / without it', '≥ 0.9', getName(service), getName(WITHOUT_TREE)],
];

const withMetrics: Ratio[] = [
  ['POST: with metrics / without them', '≥ 0.97', postName(WITH_METRICS), postName(WITHOUT_METRICS)],
  [
    'POST: CPU of a request, with metrics / without them',
    '',
    postName(WITH_METRICS),
    postName(WITHOUT_METRICS),
    cpu,
  ],
  ['GET: with metrics / without them', '≥ 0.97', getName(WITH_METRICS), getName(WITHOUT_METRICS)],
  [
    'GET: CPU of a request, with metrics / without them',
    '',
    getName(WITH_METRICS),
    getName(WITHOUT_METRICS),
    cpu,
  ],
];

/** Adds what has a goal, as far as it was measured. The first service is compared with that of `--against`. */
export function addGoals(results: Results, services: readonly string[]): void {
  const [service = '', before] = services;
  for (const ratio of services.flatMap(ratiosOf)) results.addRatio(...ratio);
  for (const server of [...services, BARE]) {
    const goal = server === BARE ? '' : '≤ 10';
    results.addFigure(
      `POST: longest stall of ${server}, ms`,
      goal,
      results.values(postName(server), longestStall),
    );
  }
  for (const ratio of [
    ...(before ? changes(service, before) : []),
    ...onEventStoreDb(service),
    ...withTree(service),
    ...withMetrics,
  ])
    results.addRatio(...ratio);
}
