import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { overFakeServer } from '@event-sourced/testing/stores';
import { logOf, startInstances } from './instances.ts';
import type { System } from './run.ts';

const { EVENTSTOREDB_TEST_URL, EVENTSTOREDB_TEST_FAULTS } = process.env;

/**
 * Two instances of the service over the cluster at EVENTSTOREDB_TEST_URL, until the end of the test; undefined if there
 * is none. A node that was the leader responds to some reads after a pause, before it learns that it is not: these may be
 * stale. EVENTSTOREDB_TEST_FAULTS are shell commands, separated by commas, each of which injects a fault and heals it.
 */
export async function realCluster(): Promise<System | undefined> {
  if (!EVENTSTOREDB_TEST_URL || !EVENTSTOREDB_TEST_FAULTS) return undefined;
  const service = await startInstances(2, { EVENTSTOREDB_URL: EVENTSTOREDB_TEST_URL });
  const commands = EVENTSTOREDB_TEST_FAULTS.split(',').map((command) => command.trim());
  const inject = (command: string) => async () => void (await promisify(execFile)('sh', ['-c', command]));
  return {
    ...service,
    readsMayBeStale: true,
    faults: {
      ...Object.fromEntries(commands.map((command) => [command, inject(command)])),
      'an instance restarts': async (random) => random.pick(service.instances).restart(),
    },
    heal: service.upToDate,
    ...logOf(await overFakeServer(EVENTSTOREDB_TEST_URL)),
  };
}
