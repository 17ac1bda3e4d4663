import { EventStoreDBClient } from '@eventstore/db-client';
import fc from 'fast-check';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import {
  connectionStringProblem,
  withEsdbScheme,
  withGossipTimeout,
} from '../../../src/eventStore/eventStoreDb/connectionString.ts';

/** Any existing file: its content is not read before a connection. */
const FILE = import.meta.filename;
const DIRECTORY = import.meta.dirname;

beforeEach(() => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => {}); // the client warns about short intervals
  return () => warn.mockRestore();
});

function expectClientAccepts(text: string): void {
  void EventStoreDBClient.connectionString(withGossipTimeout(withEsdbScheme(text))).dispose();
}

describe('a connection string is accepted, also by the client', () => {
  test.each([
    'esdb://localhost',
    'esdb://localhost:2113',
    'esdb://localhost:2113/',
    'esdb://localhost:2113/?tls=false',
    'esdb://127.0.0.1:65535?tls=false',
    'esdb://admin:changeit@localhost:2113?tls=true',
    'esdb://a%20user:p%40ss%3Aw%25rd%2F@localhost',
    'esdb://admin:unusual/password?&=@localhost',
    'esdb://a.example,b-2.example:2114,c_3.example?tls=false',
    'esdb+discover://cluster.example:2113',
    'kurrentdb://admin:changeit@localhost',
    'kurrentdb+discover://cluster.example',
    'kurrent://localhost',
    'kdb://localhost',
    `esdb://localhost?tls=true&tlsCAFile=${FILE}`,
    `esdb://localhost?tlsCAFile=${encodeURIComponent(FILE)}`,
    `esdb://localhost?TLS=true&tls-ca-file=${FILE}`,
    'esdb://localhost?tlsVerifyCert=true',
    'esdb://localhost?nodePreference=follower&connectionName=plants%20of%20mine',
    'esdb://a,b?maxDiscoverAttempts=3&discoveryInterval=0&gossipTimeout=1&nodePreference=leader',
    'esdb://localhost?keepAliveInterval=-1&keepAliveTimeout=-1&defaultDeadline=5000',
    'esdb://localhost?throwOnAppendFailure=false',
  ])('%s', (text) => {
    expect(connectionStringProblem(text)).toBeUndefined();
    expectClientAccepts(text);
  });
});

const SHAPE =
  'must be a connection string such as esdb://user:password@host:2113?tls=true; in a password, : @ and % are written as %3A %40 %25';
const SCHEME = 'must begin with esdb://, esdb+discover:// or kurrentdb://';
const HOSTS = 'must list hosts as host or host:port, separated by commas';
const ENCODING = 'must have a percent-encoded user and password';
const UNKNOWN =
  'has an unknown option: docs/eventstoredb.md lists tls, tlsCAFile, nodePreference and the others';
const withoutValue = (option: string) => `has an option without a valid value: ${option}=…`;
const invalid = (reason: string) => `has an invalid option: ${reason}`;
const TLS = invalid('tls must be true or false');
const CA_FILE = invalid('tlsCAFile must name a readable file');
const VERIFY_CERT = invalid('tlsVerifyCert cannot be false: set tlsCAFile to the certificate of the CA');
const NODES = 'leader or follower or random or readOnlyReplica or read_only_replica';
const integer = (name: string, least: number) => invalid(`${name} must be an integer of at least ${least}`);

const PROBLEMS: [string, string][] = [
  ['', SHAPE],
  ['localhost:2113', SHAPE],
  ['esdb:localhost', SHAPE],
  ['esdb://', SHAPE],
  ['esdb://?tls=false', SHAPE],
  ['esdb://admin:hunter2@', SHAPE],
  ['esdb://admin@localhost', SHAPE],
  ['esdb://admin:@localhost', SHAPE],
  ['esdb://:hunter2@localhost', SHAPE],
  ['esdb://admin:hun:ter2@localhost', SHAPE],
  ['esdb://admin:hun@ter2@localhost', SHAPE],
  ['esdb://localhost?', SHAPE],
  ['http://localhost:2113', SCHEME],
  ['ESDB://localhost', SCHEME],
  ['tcp://admin:hunter2@localhost:1113', SCHEME],
  ['esdb+srv://localhost', SCHEME],
  ['esdb://admin:hunter2', HOSTS],
  ['esdb://localhost:port', HOSTS],
  ['esdb://localhost:0', HOSTS],
  ['esdb://localhost:65536', HOSTS],
  ['esdb://[::1]:2113', HOSTS],
  ['esdb://a,,b', HOSTS],
  ['esdb://a, b', HOSTS],
  ['esdb://admin:hunter%2@localhost', ENCODING],
  ['esdb://admin%:41hunter2@localhost', ENCODING],
  ['esdb://localhost?password=hunter2', UNKNOWN],
  ['esdb://admin:hunter2@localhost?constructor=hunter2', UNKNOWN],
  ['esdb://localhost?hunter2=hunter2', UNKNOWN],
  ['esdb://localhost?tls', withoutValue('tls')],
  ['esdb://localhost?tls=', withoutValue('tls')],
  ['esdb://localhost?connectionName=a=b', withoutValue('connectionName')],
  ['esdb://localhost?connectionName=a?b', withoutValue('connectionName')],
  ['esdb://localhost?connectionName=50%', withoutValue('connectionName')],
  ['esdb://localhost?tls=yes', TLS],
  ['esdb://localhost?tls=False', TLS],
  ['esdb://localhost?tls=true&', UNKNOWN],
  ['esdb://localhost?tlsCAFile=/nowhere/ca.pem', CA_FILE],
  [`esdb://localhost?tlsCAFile=${DIRECTORY}`, CA_FILE],
  [`esdb://localhost?tls=false&tlsCAFile=${FILE}`, 'has both tls=false and tlsCAFile: remove one of them'],
  ['esdb://localhost?tlsVerifyCert=false', VERIFY_CERT],
  [`esdb://localhost?userCertFile=${FILE}`, 'must have userCertFile and userKeyFile, or neither'],
  ['esdb://localhost?nodePreference=nearest', invalid(`nodePreference must be ${NODES}`)],
  ['esdb://localhost?maxDiscoverAttempts=0', integer('maxDiscoverAttempts', 1)],
  ['esdb://localhost?keepAliveInterval=-2', integer('keepAliveInterval', -1)],
];

describe('the problem of a connection string is reported without quoting it', () => {
  test.each(PROBLEMS)('%j', (text, problem) => {
    expect(connectionStringProblem(text)).toBe(problem);
  });

  test('nor a password at any place', () => {
    const everything = PROBLEMS.map(([, problem]) => problem).join('\n');
    const special = fc.constantFrom(...':@/?&=%,[]#aZ1');
    const password = fc
      .oneof(fc.string({ minLength: 4 }), fc.string({ minLength: 4, unit: special }))
      .filter((text) => !everything.includes(text));
    const broken = [
      '*',
      'admin:*@localhost',
      'http://admin:*@localhost',
      'esdb:admin:*@localhost',
      'esdb://admin:*',
      'esdb://admin:*@',
      'esdb://*',
      'esdb://*@localhost',
      'esdb://admin:*@local host',
      'esdb://admin:*@localhost:port',
      'esdb://admin:*%@localhost',
      'esdb://admin:*@localhost?tls=maybe',
      'esdb://localhost?tls=*',
      'esdb://localhost?tlsCAFile=*',
      'esdb://localhost?nodePreference=*',
      'esdb://localhost?keepAliveTimeout=*',
      'esdb://localhost?password=*',
      'esdb://localhost?*=1',
      'esdb://localhost?tls=false&*',
    ];
    fc.assert(
      fc.property(fc.constantFrom(...broken), password, (text, secret) => {
        expect(connectionStringProblem(text.replace('*', () => secret)) ?? '').not.toContain(secret);
      }),
      { numRuns: 500 },
    );
  });
});

test('every accepted connection string is accepted by the client, too', () => {
  const odd = fc.string({ minLength: 1, maxLength: 6, unit: fc.constantFrom(...':@/?&=%,+ ab14') });
  const name = fc.constantFrom('localhost', 'a.example', '127.0.0.1');
  const host = fc.oneof({ weight: 3, arbitrary: name }, odd);
  const option = fc.oneof(
    { weight: 3, arbitrary: odd.map((text) => `connectionName=${text}`) },
    fc.constantFrom(
      'tls=true',
      'tls=false',
      'nodePreference=random',
      'keepAliveInterval=0',
      'gossip_timeout=7',
    ),
    odd,
  );
  const text = fc
    .record({
      scheme: fc.constantFrom('esdb', 'esdb+discover', 'kurrentdb', 'kdb+discover'),
      credentials: fc.option(fc.tuple(odd, odd), { nil: undefined }),
      hosts: fc.array(host, { minLength: 1, maxLength: 3 }),
      options: fc.array(option, { maxLength: 2 }),
      // A client with TLS takes 20 ms to create.
      tls: fc.oneof({ weight: 9, arbitrary: fc.constant(['tls=false']) }, fc.constant([])),
      slash: fc.boolean(),
    })
    .map(({ scheme, credentials, hosts, slash, ...given }) => {
      const options = [...given.options, ...given.tls].join('&');
      const access = credentials ? `${credentials.join(':')}@` : '';
      return `${scheme}://${access}${hosts.join(',')}${slash ? '/' : ''}${options && `?${options}`}`;
    });
  let accepted = 0;
  fc.assert(
    fc.property(text, (text) => {
      if (connectionStringProblem(text) !== undefined) return;
      accepted++;
      expectClientAccepts(text);
    }),
    { numRuns: 500 },
  );
  expect(accepted).toBeGreaterThan(20);
});

test.each([
  ['esdb://admin:changeit@localhost', 'esdb://admin:changeit@localhost'],
  ['kurrentdb://kurrentdb:kdb@kurrentdb', 'esdb://kurrentdb:kdb@kurrentdb'],
  ['kdb+discover://cluster.example?tls=false', 'esdb+discover://cluster.example?tls=false'],
])('%s is converted to %s for the client', (text, converted) => {
  expect(withEsdbScheme(text)).toBe(converted);
});

test.each([
  ['esdb://one,two', 'esdb://one,two?gossipTimeout=2'],
  ['esdb://one,two?tls=false', 'esdb://one,two?tls=false&gossipTimeout=2'],
  ['esdb://one,two?tls=false&Gossip-Timeout=7', 'esdb://one,two?tls=false&Gossip-Timeout=7'],
])('%s waits for gossip as %s', (text, complete) => {
  expect(withGossipTimeout(text)).toBe(complete);
});
