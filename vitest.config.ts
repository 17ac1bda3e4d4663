import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

const MINUTE_MS = 60_000;
const GIB = 2 ** 30;

// A time-out ends a hang. No test depends on speed, so all time-outs are far beyond what a slow machine
// takes.
const test = (name: string, patterns: string[], more = {}): TestProjectInlineConfiguration => ({
  test: {
    name,
    include: patterns,
    pool: 'forks',
    // Files that run in one worker share what they import; a test undoes what it changes in the process.
    isolate: false,
    testTimeout: 10 * MINUTE_MS,
    hookTimeout: 10 * MINUTE_MS,
    // Threads and processes that tests start need not compile their modules again: it is most of what they
    // cost.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/compiled') },
    expect: { poll: { timeout: 5 * MINUTE_MS, interval: 20 } },
    ...more,
  },
});

const OTHERS = ['browser', 'clients', 'faults', 'heavy', 'containers'].map((dir) => `test/${dir}/**`);
/** What takes long: it starts processes, or the service several times, or EventStoreDB's client. */
const E2E = [
  'test/e2e/*.test.ts',
  'packages/event-store-db/test/*.test.ts',
  'packages/event-log/test/copy/*.test.ts',
  'packages/monitor/test/cli/bin.test.ts',
];
/** One file after the other, after all others. */
const ALONE = { fileParallelism: false, sequence: { groupOrder: 1 } };
const LONG = { testTimeout: 30 * MINUTE_MS, hookTimeout: 30 * MINUTE_MS };

export default defineConfig({
  test: {
    teardownTimeout: 10 * MINUTE_MS,
    coverage: { include: ['{src,projections,packages/*/src}/**/*.ts'], reporter: ['text-summary'] },
    // Two more than cores, since some wait; as far as each has a GiB of memory: it and the processes it
    // starts need less.
    maxWorkers: Math.max(
      1,
      Math.min(availableParallelism() + 2, Math.floor(process.availableMemory() / GIB)),
    ),
    projects: [
      // One project for unit and HTTP tests, since each project has workers of its own, which import all modules
      // again.
      test('main', ['{test,packages/*/test}/**/*.test.ts'], { exclude: [...E2E, ...OTHERS] }),
      test('e2e', E2E),
      test('browser', ['test/browser/*.test.ts'], { globalSetup: 'test/browser/setUp.ts' }),
      test('clients', ['test/clients/*.test.ts']),
      test('bench', ['bench/*.test.ts']),
      test('faults', ['test/faults/*.test.ts'], LONG),
      test('heavy', ['test/heavy/*.test.ts'], { ...LONG, ...ALONE }),
      test('containers', ['test/containers/*.test.ts'], {
        globalSetup: 'test/containers/server.ts',
        ...ALONE,
      }),
    ],
  },
});
