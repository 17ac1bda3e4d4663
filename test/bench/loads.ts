import { appendAlone, measureVisibility, startOnEventStoreDb } from './eventStoreDbLoads.ts';
import { measureLoad } from './load.ts';
import { CONNECTIONS, getName, getOfOneName, MAIN_CONNECTIONS, postName, withFullLog } from './names.ts';
import { type Job, runRounds } from './rounds.ts';
import { type Server, startOthers, startServices } from './servers.ts';
import { type Bench, POSTING_USERS, USERS } from './setUp.ts';

/** Measures POST and GET of the service and of what it is compared with, interleaved. */
export async function measureLoads(bench: Bench, eventStoreDb: string | undefined): Promise<void> {
  const { only, rounds } = bench.options;
  const post = ({ name, contender }: Server, connections = MAIN_CONNECTIONS): Job => ({
    name: postName(name, connections),
    measure: () => measureLoad(bench, contender, { method: 'POST', connections, users: POSTING_USERS }),
  });
  const get = ({ name, contender }: Server, users = USERS): Job => ({
    name: users === 1 ? getOfOneName(name) : getName(name),
    measure: () => measureLoad(bench, contender, { method: 'GET', connections: MAIN_CONNECTIONS, users }),
  });

  const jobs: Job[] = [];
  await using resources = new AsyncDisposableStack();
  const { bare, crud } = await startOthers(bench, resources);
  if (only.has('post') || only.has('connections')) {
    const services = await startServices(bench, resources, bench.emptyLog);
    for (const connections of only.has('connections') ? CONNECTIONS : [MAIN_CONNECTIONS])
      jobs.push(...[bare, ...services, crud].map((server) => post(server, connections)));
  }
  if (only.has('post') || only.has('get')) {
    const services = await startServices(bench, resources, bench.fullLog);
    if (only.has('post'))
      jobs.push(...services.map(({ name, contender }) => post({ name: withFullLog(name), contender })));
    if (only.has('get')) jobs.push(get(bare), ...services.flatMap((server) => [get(server), get(server, 1)]));
  }
  const onServer = eventStoreDb && (await startOnEventStoreDb(bench, resources, eventStoreDb));
  if (onServer) jobs.push(...appendAlone(bench, eventStoreDb, POSTING_USERS), post(onServer), get(onServer));
  await runRounds(jobs, rounds, bench.results);
  if (onServer) await measureVisibility(bench, eventStoreDb, onServer);
}
