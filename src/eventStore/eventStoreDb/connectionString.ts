import { accessSync, constants, statSync } from 'node:fs';

// Connection strings as @eventstore/db-client 6.2.1 parses them. Its own errors would quote them, with the
// password.

const SHAPE =
  /^(?<scheme>[^:/]+):\/\/(?:(?<user>[^:@]+):(?<password>[^:@]+)@)?(?<hosts>[^@/?]+)\/?(?:\?(?<options>.+))?$/;
const SCHEME = /^(esdb|kurrentdb|kurrent|kdb)(\+discover)?$/;
const HOST = /^[A-Za-z0-9._-]+(:([1-9]\d{0,4}))?$/;

const EXAMPLE = 'esdb://user:password@host:2113?tls=true';

type Check = (value: string) => string | undefined;

const oneOf =
  (...values: string[]): Check =>
  (value) =>
    values.includes(value) ? undefined : `must be ${values.join(' or ')}`;
const integer =
  (minimum: number): Check =>
  (value) =>
    /^-?\d{1,9}$/.test(value) && Number(value) >= minimum
      ? undefined
      : `must be an integer of at least ${minimum}`;
const anyValue: Check = () => undefined;
const readableFile: Check = (value) => {
  const path = decodeURIComponent(value);
  try {
    accessSync(path, constants.R_OK);
    if (statSync(path).isFile()) return undefined;
  } catch {}
  return 'must name a readable file';
};

/** The options, by canonical name. */
const OPTIONS = new Map<string, Check>(
  Object.entries({
    tls: oneOf('true', 'false'),
    tlsverifycert: (value) =>
      value === 'false'
        ? 'cannot be false: set tlsCAFile to the certificate of the CA'
        : oneOf('true')(value),
    tlscafile: readableFile,
    usercertfile: readableFile,
    userkeyfile: readableFile,
    nodepreference: oneOf('leader', 'follower', 'random', 'readOnlyReplica', 'read_only_replica'),
    maxdiscoverattempts: integer(1),
    discoveryinterval: integer(0),
    gossiptimeout: integer(1),
    keepaliveinterval: integer(-1),
    keepalivetimeout: integer(-1),
    defaultdeadline: integer(1),
    throwonappendfailure: oneOf('true', 'false'),
    connectionname: anyValue,
  }),
);

/**
 * What is wrong with a connection string, to follow its name in a message; nothing that may be secret is
 * quoted.
 */
export function connectionStringProblem(text: string): string | undefined {
  const {
    scheme = '',
    hosts = '',
    user = '',
    password = '',
    options,
  } = SHAPE.exec(text.replace(/\/+$/, ''))?.groups ?? {};
  if (hosts === '') {
    return `must be a connection string such as ${EXAMPLE}; in a password, : @ and % are written as %3A %40 %25`;
  }
  if (!SCHEME.test(scheme)) return 'must begin with esdb://, esdb+discover:// or kurrentdb://';
  for (const host of hosts.split(',')) {
    const port = HOST.exec(host);
    if (!port || Number(port[2] ?? 1) > 65_535)
      return 'must list hosts as host or host:port, separated by commas';
  }
  if (!isEncoded(user) || !isEncoded(password)) return 'must have a percent-encoded user and password';
  return options === undefined ? undefined : optionsProblem(options);
}

function optionsProblem(text: string): string | undefined {
  const options = new Map<string, string>();
  for (const pair of text.split('&')) {
    const [name = '', value = '', ...rest] = pair.split('=');
    const check = OPTIONS.get(canonical(name));
    if (!check)
      return 'has an unknown option: docs/eventstoredb.md lists tls, tlsCAFile, nodePreference and the others';
    if (rest.length > 0 || !/^[^?@\s]+$/.test(value) || !isEncoded(value))
      return `has an option without a valid value: ${name}=…`;
    const problem = check(value);
    if (problem !== undefined) return `has an invalid option: ${name} ${problem}`;
    options.set(canonical(name), value);
  }
  if (options.get('tls') === 'false' && options.has('tlscafile')) {
    return 'has both tls=false and tlsCAFile: remove one of them';
  }
  if (options.has('usercertfile') !== options.has('userkeyfile')) {
    return 'must have userCertFile and userKeyFile, or neither';
  }
  return undefined;
}

/** The client ignores case, `-` and `_` in option names. */
function canonical(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, '');
}

function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** With the scheme esdb, the only one that the client supports. */
export function withEsdbScheme(url: string): string {
  return url.replace(/^[a-z]+/, 'esdb');
}

/** The connection string of the first node of a cluster alone; undefined if there is only one node. */
export function firstNodeOnly(url: string): string | undefined {
  const { hosts = '' } = SHAPE.exec(url)?.groups ?? {};
  const [first = '', ...others] = hosts.split(',');
  return others.length === 0 ? undefined : url.replace(hosts, first).replace('+discover', '');
}

/** How long a node may take to say which one is the leader, in seconds. The client's default is 5. */
const GOSSIP_TIMEOUT_S = 2;

/** With a gossip timeout, unless it has one: a node that is frozen would delay each look-up of the leader. */
export function withGossipTimeout(url: string): string {
  const text = url.replace(/\/+$/, '');
  const { options } = SHAPE.exec(text)?.groups ?? {};
  const isSet = options?.split('&').some((pair) => canonical(pair).startsWith('gossiptimeout='));
  return isSet ? text : `${text}${options === undefined ? '?' : '&'}gossipTimeout=${GOSSIP_TIMEOUT_S}`;
}
