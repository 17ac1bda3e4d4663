import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Row, rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect } from 'vitest';
import { logFile } from '../../packages/event-log/src/disk/dataDir.ts';
import { type Step, stepsIn, traced, tracedPid } from './diskTrace.ts';
import { Disk } from './powerCut.ts';
import { MAIN, NODE } from './process.ts';
import { startServer } from './server.ts';

export const USERS = ['alice', 'bob'] as const;
const CLIENTS = 64;
/** More plants than the log has between two of its checkpoints: 64 MiB, and each counts two pages and its text. */
const PLANTS_TO_CHECKPOINT = 8_400;

export type ProcessName = 'firstStart' | 'killed' | 'recovering' | 'damagedView';

export type Recording = {
  /** The directory of all processes; the data is in `data` below it. */
  root: string;
  steps: Step[];
  /** The first line of each process. */
  starts: Partial<Record<ProcessName, number>>;
  /** The log at the end. */
  rows: Row[];
  /** The key file. */
  key: string;
};

/**
 * Records what processes do to a data directory: a first start with plants, a server that is killed, one that
 * recovers its log, checkpoints it under load and is killed, and a server that replaces a damaged view.
 */
export async function recordService(): Promise<Recording> {
  const root = tempDir();
  const dir = join(root, 'data');
  const steps: Step[] = [];
  const starts: Recording['starts'] = {};
  const trace = join(tempDir(), 'trace');
  let end = 0;
  let nextId = 1;

  /** Appends the trace of a process that has ended. */
  function add(process: ProcessName): void {
    const parsed = stepsIn(trace, root);
    const last = (parsed.steps.at(-1)?.to ?? 0) + 1;
    const done = parsed.interrupted.flatMap(partDone).map((step) => ({ ...step, to: last }));
    for (const step of [...parsed.steps, ...done])
      steps.push({ ...step, from: step.from + end, to: step.to + end });
    starts[process] = end;
    end += last + 1;
    expectCompleteRecording(root, steps);
  }

  /** Creates plants until the server has acknowledged all of them, or is killed. */
  async function serve(
    process: ProcessName,
    plants: number,
    killAfter = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const server = await startServer({ command: traced(trace, [NODE, MAIN]), env: { DATA_DIR: dir } });
    const pid = tracedPid(trace);
    const last = nextId + plants;
    let acknowledged = 0;
    const write = async (): Promise<void> => {
      while (nextId < last) {
        const id = nextId++;
        const response = await server.as(USERS[id % 2 === 0 ? 0 : 1]).create(id, { name: `plant ${id}` });
        expect(response.status).toBe(200);
        await response.text();
        if (++acknowledged === killAfter) globalThis.process.kill(pid, 'SIGKILL');
      }
    };
    const writing = Array.from({ length: Math.min(CLIENTS, plants) }, write);
    if (killAfter === Number.POSITIVE_INFINITY) {
      await Promise.all(writing);
      globalThis.process.kill(pid, 'SIGTERM');
    } else await Promise.allSettled(writing);
    await server.ended;
    add(process);
  }

  await serve('firstStart', 100);
  await serve('killed', 300, 200);
  await serve('recovering', PLANTS_TO_CHECKPOINT, PLANTS_TO_CHECKPOINT);
  const path = join(dir, 'view.db');
  const bytes = Buffer.alloc(statSync(path).size, 'damaged');
  writeFileSync(path, bytes);
  steps.push({ call: 'write', path, bytes, at: 0, from: end, to: end });
  steps.push({ call: 'sync', path, from: end, to: end });
  end++;
  await serve('damagedView', 20);
  return {
    root,
    steps,
    starts,
    rows: rowsIn(logFile(dir)),
    key: readFileSync(join(dir, 'key.json'), 'utf8'),
  };
}

/** What a call that a kill interrupted has done: of a write any part, of a sync nothing that is certain. */
function partDone(step: Step): Step[] {
  if (step.call === 'acknowledge' || step.call === 'sync') return [];
  if (step.call !== 'write' || step.at === 'end')
    throw new Error(`a ${step.call} was interrupted by the kill`);
  const bytes = readFileSync(step.path).subarray(step.at, step.at + step.bytes.length);
  return bytes.length === 0 ? [] : [{ ...step, bytes }];
}

/** Expects that the steps reproduce the existing files, so that no change has escaped the recording. */
function expectCompleteRecording(root: string, steps: readonly Step[]): void {
  const everything = { line: Number.POSITIVE_INFINITY, sectorBytes: 4096, random: { next: () => 0 } };
  const disk = new Disk(root, steps, { ...everything, writeBack: { content: 0, entries: 0 } });
  const files = [...disk.cached()].filter(([path]) => !isShared(path));
  const names = readdirSync(join(root, 'data')).filter((name) => !isShared(name));
  expect(files.map(([path]) => path).sort()).toEqual(names.map((name) => join('data', name)).sort());
  for (const [path, bytes] of files)
    expect(bytes.equals(readFileSync(join(root, path))), `the recording of ${path} is complete`).toBe(true);
}

/** SQLite writes it through shared memory, and creates it again after a crash. */
const isShared = (path: string): boolean => path.endsWith('-shm');
