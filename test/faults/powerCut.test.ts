import { readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { rowsIn } from '@event-sourced/testing/logs';
import { Random } from '@event-sourced/testing/random';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { logFile } from '../../packages/event-log/src/disk/dataDir.ts';
import { canTrace, type Step } from '../support/diskTrace.ts';
import { untilAvailable } from '../support/instances.ts';
import { type Cut, Disk, writeFiles } from '../support/powerCut.ts';
import { type ProcessName, type Recording, recordService, USERS } from '../support/recordedService.ts';
import { startServer } from '../support/server.ts';
import { type client, startService } from '../support/service.ts';
import { verifyDir } from '../support/verifyDir.ts';

// The disk after a power cut at any step of recorded processes has what was synced, and any part of the rest.

const CUTS_PER_STAGE = 10;
/** Every so many cuts, the next service is a process. */
const CUTS_PER_PROCESS = 8;
const LIKELIHOODS = [0, 0.1, 0.5, 0.9, 1];

describe.skipIf(!canTrace)('a power cut', () => {
  /** One recording for all tests, made by the first of them. */
  let recorded: Promise<Recording> | undefined;
  const record = (): Promise<Recording> => {
    recorded ??= recordService();
    return recorded;
  };

  test('loses no acknowledged plant; the log verifies, and the view equals it', async () => {
    const recording = await record();
    const stages = Object.entries(stagesOf(recording));
    const found: string[] = [];
    let cuts = 0;
    for (const [stage, steps] of stages) {
      for (let i = 0; i < CUTS_PER_STAGE; i++, cuts++) {
        const cut = randomCut(steps, cuts);
        const problem = await problemAfter(recording, cut, { asProcess: cuts % CUTS_PER_PROCESS === 0 });
        if (problem !== undefined) found.push(`${stage}, cut ${cuts} at line ${cut.line}: ${problem}`);
      }
    }
    console.info(`${cuts} power cuts in ${stages.length} stages`);
    expect(found).toEqual([]);
  });

  test.for([
    ['the write-ahead log', 'plants until a kill', /log\.db-wal$/],
    ['the log in a WAL checkpoint', 'plants after the WAL checkpoint', /log\.db$/],
    ['the data directory', 'the first plants', /data$/],
    ['the directory above it', 'the first plants', /plant-store-[^/]*$/],
  ] as const)('would lose acknowledged plants without the fsync of %s', async ([, stage, path]) => {
    const recording = await record();
    const steps = stagesOf(recording)[stage];
    const problem = await problemAfter(recording, {
      line: (steps.at(-1) as Step).to + 1,
      sectorBytes: 512,
      writeBack: { content: 0, entries: 0 },
      random: { next: () => 0 },
      isIgnored: (sync) => 'path' in sync && path.test(sync.path),
    });
    expect(problem).toMatch(/lost|cannot use the log/);
  });
});

/** The steps of each stage of the recording that a power cut has to be tried in. */
function stagesOf({ steps, starts }: Recording) {
  const processes = Object.entries(starts).map(([name, start], i, all) => {
    const end = all[i + 1]?.[1] ?? Number.POSITIVE_INFINITY;
    const own = steps.filter(({ from }) => from >= start && from < end);
    const first = own.findIndex(isAcknowledgement);
    const last = own.findLastIndex(isAcknowledgement);
    const parts = {
      starting: own.slice(0, first),
      serving: own.slice(first, last),
      closing: own.slice(last),
    };
    return [name, first < 0 ? { starting: own, serving: [], closing: [] } : parts] as const;
  });
  const { firstStart, killed, recovering, damagedView } = Object.fromEntries(processes) as Record<
    ProcessName,
    (typeof processes)[number][1]
  >;
  const checkpointed = recovering.serving.findLastIndex(
    (step) => step.call === 'sync' && isOf(step, 'log.db'),
  );
  return {
    'the first start': firstStart.starting,
    'the first plants': firstStart.serving,
    'a clean stop': firstStart.closing,
    'plants until a kill': killed.serving,
    'the recovery of the log': recovering.starting,
    'a WAL checkpoint under load': recovering.serving.filter((step) => isOf(step, 'log.db')),
    'plants after the WAL checkpoint': recovering.serving.slice(checkpointed),
    'saving the view': recovering.serving.filter(
      (step) => isOf(step, 'view.db') || isOf(step, 'view.db-wal'),
    ),
    'the replacement of a damaged view': damagedView.starting,
  };
}

const isAcknowledgement = (step: Step) => step.call === 'acknowledge';
const isOf = (step: Step, name: string): boolean => 'path' in step && basename(step.path) === name;

/** A power cut during or after one of the steps. */
function randomCut(steps: readonly Step[], seed: number): Cut {
  const random = new Random(seed);
  const { from, to } = random.pick(steps);
  return {
    line: random.pick([from, to]) + 1,
    sectorBytes: random.pick([512, 4096]),
    writeBack: { content: random.pick(LIKELIHOODS), entries: random.pick(LIKELIHOODS) },
    random,
  };
}

/** What the next service has lost or cannot do; undefined if nothing. */
async function problemAfter(
  recording: Recording,
  cut: Cut,
  { asProcess = false } = {},
): Promise<string | undefined> {
  const copy = tempDir();
  const dir = join(copy, 'data');
  writeFiles(copy, new Disk(recording.root, recording.steps, cut).onDisk());
  try {
    const service = asProcess ? await startProcess(dir) : await startService({ DATA_DIR: dir });
    const kept = rowsIn(logFile(dir));
    const problem = await findProblem(service, { dir, kept, recording, cut }).catch(messageOf);
    await service.close();
    if (problem !== undefined) return problem;
    const { size, view, problems } = await verifyDir(dir);
    expect({ size, view, problems }).toEqual({
      size: kept.length + 1,
      view: BigInt(kept.length + 1),
      problems: [],
    });
    return undefined;
  } catch (error) {
    return messageOf(error as Error);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

const messageOf = ({ message }: Error): string => message;

type Restarted = {
  dir: string;
  /** The rows of its log at the start. */
  kept: ReturnType<typeof rowsIn>;
  recording: Recording;
  cut: Cut;
};

async function findProblem(
  service: { as: ReturnType<typeof client> },
  { dir, kept, recording: { steps, rows, key }, cut }: Restarted,
): Promise<string | undefined> {
  const acknowledged = steps.flatMap((step) =>
    step.from < cut.line && step.call === 'acknowledge' ? [step] : [],
  );
  for (const { name, position } of acknowledged) {
    const row = kept[Number(position.split('.')[1]) - 1];
    if (!row || JSON.parse(row.data).name !== name) return `${name} is lost`;
  }
  if (!isDeepStrictEqual(kept, rows.slice(0, kept.length))) return 'the log differs';
  if (acknowledged.length > 0) expect(readFileSync(join(dir, 'key.json'), 'utf8')).toBe(key);
  for (const user of USERS) {
    const response = await untilAvailable(() => service.as(user).get());
    const [logId] = response.headers.get('log-position')?.split('.') ?? [];
    if (acknowledged[0]) expect(acknowledged[0].position.split('.')[0]).toBe(logId);
    const ofUser = kept.map(({ data }) => JSON.parse(data)).filter((plant) => plant.user === user);
    const names = ofUser.map(({ name }) => ({ name }));
    if (!isDeepStrictEqual(await response.json(), names)) return `the view of ${user} differs`;
  }
  const again = kept.at(-1);
  if (again) {
    const { user, id, name } = JSON.parse(again.data);
    expect((await service.as(user).create(BigInt(id), { name })).status).toBe(200);
  }
  expect((await service.as('alice').create(1_000_000, { name: 'after the cut' })).status).toBe(200);
  return undefined;
}

/** The service as a process. */
async function startProcess(dir: string) {
  const { as, terminate } = await startServer({ env: { DATA_DIR: dir } });
  return { as, close: async () => expect((await terminate()).code).toBe(0) };
}
