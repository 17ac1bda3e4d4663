import { randomUUID } from 'node:crypto';
import { tempDir } from '@event-sourced/testing/tempDir';
import type { GenericContainer, StartedTestContainer } from 'testcontainers';
import { expect, inject, onTestFinished, test } from 'vitest';
import { positionIn } from '../support/eventStoreDbService.ts';
import { ready } from '../support/instances.ts';
import { Load } from '../support/load.ts';
import { startServiceWithTree } from '../support/service.ts';
import { CHOWN, REFUSAL, STORES, UPGRADED } from './documented.ts';
import { PORT, START_TIMEOUT_MS, serverIsLive } from './server.ts';

/** The number of plants created on each version. */
const SOME = 50;
const STOP_TIMEOUT_MS = 60_000;

test.skipIf(!inject('canUpgrade'))(
  'the steps of docs/eventstoredb.md bring a volume from EventStoreDB 23.10 to KurrentDB with all plants, each once',
  async () => {
    const { V23, V24, V26 } = UPGRADED;
    const { Wait } = await import('testcontainers');
    const { containerOf, anonymousVolumesOf } = await composeProject();
    const DATA_DIR = tempDir();
    const load = new Load();
    const logs = new Set<string | undefined>();

    const serverOf = async (image: string) =>
      started(
        containerOf(image)
          .withExposedPorts(PORT)
          .withWaitStrategy(await serverIsLive()),
      );
    /** Starts a server, lists through the service what earlier ones have stored, stores more, and stops both. */
    async function used(image: string): Promise<void> {
      const server = await serverOf(image);
      expect(await anonymousVolumesOf(server)).toEqual([]); // `down` would leave them behind
      const EVENTSTOREDB_URL = `esdb://${server.getHost()}:${server.getMappedPort(PORT)}?tls=false`;
      const service = await startServiceWithTree({ DATA_DIR, EVENTSTOREDB_URL });
      await ready(service);
      if (load.acknowledged.length > 0) await load.expectKept(service);
      load.start(service);
      await load.more(SOME);
      await load.stop();
      await load.expectKept(service);
      const [log] = positionIn(await service.as('alice').get()).split('.');
      logs.add(log);
      await service.close();
      expect(service.log().filter(({ level }) => level > 30)).toEqual([]);
      await server.stop({ timeout: STOP_TIMEOUT_MS });
    }
    const refused = (image: string) => expect(serverOf(image).then(() => {})).rejects.toThrow(REFUSAL);

    await used(V23);
    await used(V24);
    await refused(V26);
    const { store, user, entrypoint, args } = CHOWN;
    const chown = containerOf(V24, store).withUser(user).withEntrypoint([entrypoint]).withCommand(args);
    await started(chown.withWaitStrategy(Wait.forOneShotStartup()));
    await used(V26);
    await refused(V24);
    await used(V26);
    expect([...logs]).toEqual([expect.any(String)]);
  },
);

/** Starts a container, which is removed at the end of the test. */
async function started(container: GenericContainer) {
  const running = await container.withStartupTimeout(START_TIMEOUT_MS).start();
  onTestFinished(async () => void (await running.stop()));
  return running;
}

/** Containers of a store as docker-compose.yml describes it, with volumes that are removed at the end of the test. */
async function composeProject() {
  const { GenericContainer, LABEL_TESTCONTAINERS_SESSION_ID, getContainerRuntimeClient, getReaper } =
    await import('testcontainers'); // slow to load
  const project = `plant-store-${randomUUID()}`;
  const client = await getContainerRuntimeClient();
  const { sessionId } = await getReaper(client);
  const mounts = (volumes: string[]) =>
    volumes.map((volume) => {
      const [name, target = ''] = volume.split(':');
      return { source: `${project}_${name}`, target };
    });
  for (const Name of new Set(mounts(STORES.eventstore?.volumes ?? []).map(({ source }) => source))) {
    const Labels = { [LABEL_TESTCONTAINERS_SESSION_ID]: sessionId }; // by which Ryuk removes those of a killed run
    await client.container.dockerode.createVolume({ Name, Labels });
    onTestFinished(() => client.container.dockerode.getVolume(Name).remove());
  }
  function containerOf(image: string, store = 'eventstore') {
    const { environment, volumes, security_opt } = STORES[store] as (typeof STORES)[string];
    return new GenericContainer(image)
      .withEnvironment(environment)
      .withBindMounts(mounts(volumes))
      .withSecurityOpt(...security_opt);
  }
  async function anonymousVolumesOf(container: StartedTestContainer) {
    const { Mounts } = await client.container.getById(container.getId()).inspect();
    return Mounts.filter(({ Name }) => !Name?.startsWith(project));
  }
  return { containerOf, anonymousVolumesOf };
}
