import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

const patience = { testTimeout: 60_000, hookTimeout: 60_000, pool: 'forks' as const };

export default defineConfig({
  test: {
    maxWorkers: Math.max(4, availableParallelism() - 1), // many tests do nothing but wait
    projects: [
      {
        test: {
          ...patience,
          name: 'service',
          include: ['test/**/*.test.ts'],
          exclude: ['test/containers/**', 'test/soak/**'],
        },
      },
      { test: { ...patience, name: 'soak', include: ['test/soak/*.test.ts'], testTimeout: 600_000 } },
      {
        test: {
          ...patience,
          name: 'containers',
          include: ['test/containers/*.test.ts'],
          globalSetup: 'test/containers/server.ts',
          fileParallelism: false,
        },
      },
    ],
  },
});
