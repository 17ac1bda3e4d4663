import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { UUID } from '@event-sourced/event-log';
import { CONNECTION_STRING } from '@event-sourced/event-store-db';
import { isKeyName, KEY_NAME_RULE } from '@event-sourced/tlog';
import { canVerify, parsePolicy } from '@event-sourced/tlog/witness';
import { type Static, Type } from 'typebox';
import Format from 'typebox/format';
import Value from 'typebox/value';

/** The directory of `.env` and, by default, of the data, whatever the current directory. */
export const CHECKOUT = join(import.meta.dirname, '..');

const HTTPS_OR_LOOPBACK = '^(https://[^\\s@]+|http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/\\S*)?)$';
const PORTS = '^(0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])$';

/** White space at an end, such as a line feed after a secret, would become part of the value. */
const PADDED = /^[\s\p{C}]|[\s\p{C}]$|\p{Cc}/u;

type Rule = { pattern?: string; default?: string };
type Check = (text: string) => boolean;
/** A setting; its description completes the sentence "NAME must be …". */
const text = (description: string, rule: Rule = {}, check: Check = () => true) =>
  Type.Refine(Type.String({ description, ...rule }), check);
const optional = (description: string, rule?: Rule, check?: Check) =>
  Type.Optional(text(description, rule, check));
const onOrOff = Type.Enum(['on', 'off'], { default: 'on', description: 'on or off' });

const Settings = Type.Object({
  HOST: text('a host name or address', { pattern: '^\\S+$', default: '127.0.0.1' }),
  PORT: text('a port, or 0 for a free one', { pattern: PORTS, default: '3000' }),
  DATA_DIR: text('a directory', { default: './data' }),
  EVENTSTOREDB_URL: optional('an EventStoreDB connection string', { pattern: CONNECTION_STRING }),
  EVENTSTOREDB_TIMEOUT: text('a number of seconds from 1 to 60', {
    pattern: '^([1-9]|[1-5]\\d|60)$',
    default: '10',
  }),
  KEY_FILE: optional('a file'),
  LOG_KEY_FILE: optional('a file'),
  LOG_ORIGIN: optional(`a name such as plants.example/log, ${KEY_NAME_RULE}`, {}, isKeyName),
  JWKS_URL: optional(
    'an https URL, or http on the loopback interface',
    { pattern: HTTPS_OR_LOOPBACK },
    isHttpsOrLoopback,
  ),
  JWT_ISSUER: optional('the iss of every token'),
  JWT_AUDIENCE: optional('the aud of every token'),
  CORS_ORIGINS: optional('origins such as https://app.example, separated by commas', {}, areHttpUrls),
  RATE_LIMIT: optional('a number of requests from 1 to 999999 per s or min, such as 100/s or 3000/min', {
    pattern: '^[1-9]\\d{0,5}/(s|min)$',
  }),
  MAX_CONNECTIONS: optional('a number of connections from 1 to 999999', { pattern: '^[1-9]\\d{0,5}$' }),
  EVENT_SOURCE: text(
    'a URI such as https://plants.example/log',
    { default: 'urn:plant-store' },
    Format.IsUri,
  ),
  SKIP_EVENTS: optional('ids of events, separated by commas', { pattern: '^[^\\s,]+(,[^\\s,]+)*$' }),
  WITNESSES: optional('witnesses, each as VKEY URL, separated by commas', {}, areWitnesses),
  QUORUM: optional('a number of witnesses, from 1 to all of WITNESSES', { pattern: '^[1-9]\\d*$' }),
  DOCS: onOrOff,
  MERKLE_TREE: onOrOff,
  METRICS_HOST: optional('a host name or address', { pattern: '^\\S+$' }),
  METRICS_PORT: optional('a port, or 0 for a free one', { pattern: PORTS }),
  LOG_LEVEL: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info',
    description: 'fatal, error, warn, info, debug, trace or silent',
  }),
});
/** The settings that a setting requires. */
const REQUIRED: Partial<Record<keyof Settings, (keyof Settings)[]>> = {
  JWKS_URL: ['JWT_ISSUER', 'JWT_AUDIENCE'],
  METRICS_HOST: ['METRICS_PORT'],
  QUORUM: ['WITNESSES'],
};
type Settings = Static<typeof Settings>;
/** The settings that are paths. */
const PATHS = ['DATA_DIR', 'KEY_FILE', 'LOG_KEY_FILE'] as const;

export const SETTINGS = Object.keys(Settings.properties);

/** The configuration is invalid. The message names every problem and quotes no secret. */
class BadConfig extends Error {
  override readonly name = 'BadConfig';
  constructor(problems: string[]) {
    super(`invalid configuration:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  }
}

export type Config = ReturnType<typeof readConfig>;

/**
 * Reads the configuration; environment variables take precedence over `.env`. A relative path is relative to the current
 * directory in a variable, and to the checkout in `.env`. @throws BadConfig
 */
export function readConfig(env: NodeJS.ProcessEnv, checkout = CHECKOUT) {
  const settings = read(env, checkout);
  const { DATA_DIR, EVENTSTOREDB_URL, JWKS_URL, METRICS_HOST = '127.0.0.1', METRICS_PORT } = settings;
  const keyFile = settings.KEY_FILE ?? `${DATA_DIR}/key.json`;
  /** The key that signs checkpoints of the log. */
  const logKeyFile = settings.LOG_KEY_FILE ?? `${DATA_DIR}/log-key.json`;
  /** The name of the log in its checkpoints and its key. */
  const logOrigin = settings.LOG_ORIGIN ?? defaultOrigin(settings.EVENT_SOURCE);
  const witnesses = settings.WITNESSES?.split(',') ?? [];
  /** What browsers send in `Origin`: in lower case, without a path, and without the port of the scheme. */
  const corsOrigins = settings.CORS_ORIGINS?.split(',').map((url) => new URL(url).origin) ?? [];
  const skipEvents = settings.SKIP_EVENTS?.split(',') ?? [];
  const conflicts: [problem: string, isConflict: boolean][] = [
    ['LOG_KEY_FILE and KEY_FILE must be different files', keyFile === logKeyFile],
    ['METRICS_PORT and PORT must be different ports', METRICS_PORT === settings.PORT && METRICS_PORT !== '0'],
    [`with this EVENT_SOURCE, ${mustBe('LOG_ORIGIN')}`, !isKeyName(logOrigin)],
    ['WITNESSES requires MERKLE_TREE=on', witnesses.length > 0 && settings.MERKLE_TREE === 'off'],
    [mustBe('QUORUM'), Number(settings.QUORUM ?? 0) > witnesses.length],
    [
      `CORS_ORIGINS must be spelled as browsers do: ${corsOrigins}`,
      corsOrigins.join() !== (settings.CORS_ORIGINS ?? ''),
    ],
    ['SKIP_EVENTS must be in lower case, as in the log', skipEvents.some(isUpperCaseUuid)],
  ];
  const problems = conflicts.flatMap(([problem, isConflict]) => (isConflict ? [problem] : []));
  if (problems.length > 0) throw new BadConfig(problems);
  const eventStoreDb = ifSet(EVENTSTOREDB_URL, (url) => ({
    url,
    timeoutMs: Number(settings.EVENTSTOREDB_TIMEOUT) * 1_000,
    setting: 'EVENTSTOREDB_URL',
  }));
  return Object.freeze({
    host: settings.HOST,
    port: Number(settings.PORT),
    dataDir: DATA_DIR,
    /** The EventStoreDB that has the log; without it, the log is embedded. */
    ...(eventStoreDb && { eventStoreDb }),
    keyFile,
    jwksUrl: ifSet(JWKS_URL, (url) => new URL(url)),
    issuer: settings.JWT_ISSUER,
    audience: settings.JWT_AUDIENCE,
    corsOrigins,
    pages: settings.DOCS === 'on',
    /** The rate limit per user; without it, unlimited. */
    rateLimit: ifSet(settings.RATE_LIMIT, parseRateLimit),
    /** The maximum number of open connections; without it, unlimited. */
    maxConnections: ifSet(settings.MAX_CONNECTIONS, Number),
    /** The URI of this store: the `source` of its CloudEvents. */
    source: settings.EVENT_SOURCE,
    logKeyFile,
    logOrigin,
    /** The witnesses that cosign checkpoints, and their quorum; without it, none cosigns. */
    witnesses: witnesses.length > 0 ? parsePolicy(witnesses, settings.QUORUM) : undefined,
    skipEvents: new Set(skipEvents),
    merkleTree: settings.MERKLE_TREE === 'on',
    /** The address at which Prometheus reads metrics; undefined if metrics are off. */
    metrics: ifSet(METRICS_PORT, (port) => ({ host: METRICS_HOST, port: Number(port) })),
    logLevel: settings.LOG_LEVEL,
    /** The settings that differ from their defaults, as text without secrets. */
    settings: withoutSecrets(settings),
  });
}

/** Passwords are in URLs, before the last @; a query may have others. */
function withoutSecrets(settings: Settings): Record<string, string> {
  const shown = Object.entries(Settings.properties).flatMap(([name, rule]) => {
    const value: string | undefined = Reflect.get(settings, name);
    const isShown = value !== undefined && value !== Reflect.get(rule, 'default');
    return isShown ? [[name, value.replace(/:\/\/.*@/s, '://').replaceAll(/\?[^,]*/g, '')]] : [];
  });
  return Object.fromEntries(shown);
}

/** Call it before SQLite is used: its temporary files, which it removes as it opens them, may have names. */
export function useTempDir(env: NodeJS.ProcessEnv, { dataDir }: Config): void {
  env.SQLITE_TMPDIR ??= dataDir; // https://sqlite.org/tempfiles.html; also where the root file system is read-only
}

function ifSet<T>(text: string | undefined, parse: (text: string) => T): T | undefined {
  return text === undefined ? undefined : parse(text);
}

function parseRateLimit(text: string): { maxRequests: number; windowMs: number } {
  const [maxRequests, unit] = text.split('/');
  return { maxRequests: Number(maxRequests), windowMs: unit === 's' ? 1_000 : 60_000 };
}

/** Whether a text is a list of http or https URLs. */
function areHttpUrls(text: string): boolean {
  return text.split(',').every((text) => {
    const url = URL.parse(text);
    return /^https?:$/.test(url?.protocol ?? '') && !url?.hostname.includes('*');
  });
}

function isUpperCaseUuid(id: string): boolean {
  return !UUID.test(id) && UUID.test(id.toLowerCase());
}

/** Whether a text is a list of witnesses with URLs. */
function areWitnesses(text: string): boolean {
  try {
    return parsePolicy(text.split(',')).witnesses.every(
      ({ key, url }) => url !== undefined && canVerify(key),
    );
  } catch {
    return false;
  }
}

/** The origin of a log without LOG_ORIGIN: a URL without its scheme, as https://c2sp.org/tlog-tiles advises. */
function defaultOrigin(source: string): string {
  return source.replace(/^https?:\/\//i, '').replace(/\/+$/, '');
}

function read(env: NodeJS.ProcessEnv, checkout: string): Settings {
  const given = { ...withoutEmpty(readFile(join(checkout, '.env'))), ...withoutEmpty(env) };
  const settings = Value.Default(Settings, given) as Settings;
  const isSet = (name: string): boolean => name in settings;
  const missing = Object.entries(REQUIRED).flatMap(([name, others]) =>
    isSet(name)
      ? others.filter((other) => !isSet(other)).map((other) => `${other} is required with ${name}`)
      : [],
  );
  const invalid = Object.entries(Settings.properties).filter(
    ([name, setting]) => isSet(name) && !Value.Check(setting, Reflect.get(settings, name)),
  );
  const padded = SETTINGS.filter((name) => PADDED.test(Reflect.get(settings, name) ?? ''));
  const problems = [
    ...missing,
    ...padded.map(
      (name) => `${name} must be without control characters, and without white space at its ends`,
    ),
    ...invalid.filter(([name]) => !padded.includes(name)).map(([name]) => mustBe(name)),
  ];
  if (problems.length > 0) throw new BadConfig(problems);
  for (const name of PATHS) {
    const path = settings[name];
    if (path !== undefined) settings[name] = resolve(env[name] ? '.' : checkout, path);
  }
  return settings;
}

/** The lines of `.env` that `parseEnv` reads correctly: it skips other lines, or cuts them at a # or a quote. */
const LINE =
  /^[ \t]*(#.*|(export [ \t]*)?[A-Za-z_][\w.-]*[ \t]*=[ \t]*("[^"\r]*"|'[^'\r]*'|`[^`\r]*`|[^\s"'`#][^#\r]*?)?([ \t]+#.*)?[ \t]*)?\r?$/;
const LINE_RULE = 'NAME=value on one line, in quotes if it has # or a quote, without a byte order mark';

function readFile(file: string): NodeJS.Dict<string> {
  const lines = linesOf(file);
  const problems = lines.flatMap((line, i) =>
    LINE.test(line) ? [] : `.env line ${i + 1} must be ${LINE_RULE}`,
  );
  if (problems.length > 0) throw new BadConfig(problems);
  return Object.assign({}, ...lines.map((line) => parseEnv(line))); // it would join a blank value and the next line
}

function linesOf(file: string): string[] {
  try {
    if (!existsSync(file)) return [];
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return decoder.decode(readFileSync(file)).split('\n');
  } catch (error) {
    throw new BadConfig([`.env: ${(error as Error).message}`]);
  }
}

/** An empty setting counts as unset. */
function withoutEmpty(env: NodeJS.Dict<string>): NodeJS.Dict<string> {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
}

function mustBe(name: string): string {
  return `${name} must be ${Reflect.get(Settings.properties, name).description}`;
}

/** A check beside the pattern, since only the URL parser finds the host. */
function isHttpsOrLoopback(text: string): boolean {
  const url = URL.parse(text);
  return url?.protocol === 'https:' || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url?.hostname ?? '');
}
