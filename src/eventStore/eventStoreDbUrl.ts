import { accessSync, constants, statSync } from 'node:fs';

// Connection strings as @eventstore/db-client 6.2.1 reads them. It would quote a bad one, with its password.

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
  (least: number): Check =>
  (value) =>
    /^-?\d{1,9}$/.test(value) && Number(value) >= least
      ? undefined
      : `must be an integer of at least ${least}`;
const anything: Check = () => undefined;
const file: Check = (value) => {
  const path = decodeURIComponent(value);
  try {
    accessSync(path, constants.R_OK);
    if (statSync(path).isFile()) return undefined;
  } catch {}
  return 'must name a file that is there and can be read';
};

/** By their canonical names. */
const OPTIONS = new Map<string, Check>(
  Object.entries({
    tls: oneOf('true', 'false'),
    tlsverifycert: (value) =>
      value === 'false'
        ? 'cannot be false: name the authority’s certificate with tlsCAFile'
        : oneOf('true')(value),
    tlscafile: file,
    usercertfile: file,
    userkeyfile: file,
    nodepreference: oneOf('leader', 'follower', 'random', 'readOnlyReplica', 'read_only_replica'),
    maxdiscoverattempts: integer(1),
    discoveryinterval: integer(0),
    gossiptimeout: integer(1),
    keepaliveinterval: integer(-1),
    keepalivetimeout: integer(-1),
    defaultdeadline: integer(1),
    throwonappendfailure: oneOf('true', 'false'),
    connectionname: anything,
  }),
);

/** What keeps a text from being a connection string, to be read after its name; it quotes nothing that may be secret. */
export function connectionStringFault(text: string): string | undefined {
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
      return 'must name hosts as host or host:port, separated by commas';
  }
  if (!isEncoded(user) || !isEncoded(password)) return 'must have user and password in percent-encoding';
  return options === undefined ? undefined : optionsFault(options);
}

function optionsFault(text: string): string | undefined {
  const options = new Map<string, string>();
  for (const pair of text.split('&')) {
    const [name = '', value = '', ...rest] = pair.split('=');
    const check = OPTIONS.get(canonical(name));
    if (!check)
      return 'has an option that is unknown: tls, tlsCAFile, nodePreference and others are listed in README.md';
    if (rest.length > 0 || !/^[^?@\s]+$/.test(value) || !isEncoded(value))
      return `has an option without a proper value: ${name}=…`;
    const fault = check(value);
    if (fault !== undefined) return `has an option that cannot be: ${name} ${fault}`;
    options.set(canonical(name), value);
  }
  if (options.get('tls') === 'false' && options.has('tlscafile')) {
    return 'says tls=false and yet names a tlsCAFile: take one of them out';
  }
  if (options.has('usercertfile') !== options.has('userkeyfile')) {
    return 'must have userCertFile and userKeyFile, or neither';
  }
  return undefined;
}

/** The client overlooks case, `-` and `_` in the names of options. */
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

/** The same in the words of the client, which knows no other scheme than esdb. */
export function asEsdb(url: string): string {
  return url.replace(/^[a-z]+/, 'esdb');
}

/** A connection string for the first of several nodes alone; undefined where there is but one. */
export function firstNodeOf(url: string): string | undefined {
  const { hosts = '' } = SHAPE.exec(url)?.groups ?? {};
  const [first = '', ...others] = hosts.split(',');
  return others.length === 0 ? undefined : url.replace(hosts, first).replace('+discover', '');
}
