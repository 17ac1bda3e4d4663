import { beforeEach, expect, test } from 'vitest';
import { openClient } from '../src/connectionString.ts';

beforeEach(() => {
  const { warn } = console;
  return () => {
    console.warn = warn;
  };
});

function problem(connectionString: string): string | undefined {
  try {
    void openClient(connectionString).dispose();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

test.each([
  'esdb://localhost',
  'esdb://localhost:2113/?tls=false',
  'esdb://a%20user:p%40ss%3Aw%25rd%2F@localhost',
  'esdb://a.example,b-2.example:2114?tls=false&Gossip-Timeout=7',
  'esdb+discover://cluster.example:2113',
  'kurrentdb://admin:changeit@kurrentdb',
  'kdb+discover://cluster.example?nodePreference=follower',
  `esdb://localhost?tls=true&tlsCAFile=${encodeURIComponent(import.meta.filename)}`,
])('the client is opened for %s', (connectionString) => {
  expect(problem(connectionString)).toBeUndefined();
});

const FORM = 'expected esdb://user:password@host';

test.each([
  ['localhost:2113', FORM],
  ['http://admin:hunter2@localhost', FORM],
  ['admin:hunter2@localhost', FORM],
  ['esdb://admin:hun@hunter2@localhost', FORM],
  ['esdb://admin:hun:hunter2@localhost', FORM],
  ['esdb://admin:hunter2@', FORM],
  ['esdb://admin:hunter2', 'expected port number at position 13'],
  ['esdb://admin:hunter%2@localhost', 'URI malformed'],
  ['esdb://localhost?hunter2=hunter2', 'it has an unknown option'],
  ['esdb://localhost?tls&tls=false', 'it has an unknown option'],
  ['esdb://localhost?tls=hunter2', 'expected true or false at position 21'],
  ['esdb://localhost?tlsCAFile=/hunter2.pem', 'Failed to load certificate file. File was not found.'],
  ['esdb://localhost?tls=false&tls-ca-file=hunter2', 'it has both tls=false and tlsCAFile'],
  ['esdb://localhost?tlsVerifyCert=false', 'tlsVerifyCert cannot be false: set tlsCAFile'],
])(
  'the connection string %s is invalid, which is reported without a part of it',
  (connectionString, expected) => {
    expect(problem(connectionString)).toContain(`the connection string is invalid: ${expected}; `);
    expect(problem(connectionString)).not.toContain('hunter2');
  },
);
