import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import Format from 'typebox/format';
import { connectionStringProblem, withEsdbScheme } from './eventStore/eventStoreDb/connectionString.ts';
import type { EventStoreDbLocation } from './stores.ts';
import { isKeyName, KEY_NAME_RULE } from './transparency/signedNote.ts';

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

const NOT_EMPTY = /./s;
const PORTS = /^(0|[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])$/;
const HTTPS_OR_LOOPBACK = /^(https:\/\/[^\s@]+|http:\/\/(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?(\/\S*)?)$/;
const ORIGINS = /^https?:\/\/[a-z0-9.:-]+(,https?:\/\/[a-z0-9.:-]+)*$/;

type Setting = {
  default?: string;
  /** What is wrong with this text, without quoting it: "must be …". */
  problem: (text: string) => string | undefined;
};

/** Every setting. No schema library: loading one is a third of the time that a command takes. */
const SETTING = {
  HOST: { default: '127.0.0.1', ...mustBe('a host name or address', /^\S+$/) },
  PORT: { default: '3000', ...mustBe('a port, or 0 for a free one', PORTS) },
  DATA_DIR: { default: './data', ...mustBe('a directory', NOT_EMPTY) },
  EVENTSTOREDB_URL: { problem: connectionStringProblem },
  EVENTSTOREDB_TIMEOUT: {
    default: '10',
    ...mustBe('a number of seconds from 1 to 60', /^([1-9]|[1-5]\d|60)$/),
  },
  KEY_FILE: mustBe('a file', NOT_EMPTY),
  LOG_KEY_FILE: mustBe('a file', NOT_EMPTY),
  LOG_ORIGIN: mustBe(`a name such as plants.example/log, ${KEY_NAME_RULE}`, isKeyName),
  JWKS_URL: mustBe('an https URL, or http on the loopback interface', isHttpsOrLoopback),
  JWT_ISSUER: mustBe('the iss of every token', NOT_EMPTY),
  JWT_AUDIENCE: mustBe('the aud of every token', NOT_EMPTY),
  CORS_ORIGINS: mustBe('origins such as https://app.example, separated by commas', ORIGINS),
  EVENT_SOURCE: {
    default: 'urn:plant-store',
    ...mustBe('a URI such as https://plants.example/log', Format.IsUri),
  },
  SKIP_EVENTS: mustBe('ids of events, separated by commas', /^[^\s,]+(,[^\s,]+)*$/),
  MERKLE_TREE: { default: 'off', ...mustBe('on or off', /^(on|off)$/) },
  LOG_LEVEL: {
    default: 'info',
    ...mustBe('fatal, error, warn, info, debug, trace or silent', isLogLevel),
  },
} satisfies Record<string, Setting>;
type Name = keyof typeof SETTING;
type Settings = {
  [N in Name]: (typeof SETTING)[N] extends { default: string } ? string : string | undefined;
};

/** The names of all settings. */
export const SETTINGS = Object.keys(SETTING) as Name[];

export type Config = Readonly<{
  host: string;
  port: number;
  dataDir: string;
  /** Where the log is; without it, it is embedded. */
  eventStoreDb?: EventStoreDbLocation;
  keyFile: string;
  jwksUrl?: URL;
  issuer?: string;
  audience?: string;
  corsOrigins: readonly string[];
  /** The URI of this store, `source` of its CloudEvents. */
  source: string;
  /** The key that signs checkpoints of the log. */
  logKeyFile: string;
  /** The name of the log in its checkpoints, and of its key. */
  logOrigin: string;
  skipEvents: ReadonlySet<string>;
  /** Whether the Merkle tree of the log is maintained. */
  merkleTree: boolean;
  logLevel: LogLevel;
}>;

/** The configuration is invalid. The message names every problem and quotes no value. */
export class BadConfig extends Error {
  override readonly name = 'BadConfig';
  constructor(problems: string[]) {
    super(`invalid configuration:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  }
}

/**
 * The configuration: environment variables, which take precedence over the file `.env`.
 * @throws BadConfig with all problems at once
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const settings = read(env);
  const { EVENTSTOREDB_URL: url, JWKS_URL, JWT_ISSUER: issuer, JWT_AUDIENCE: audience } = settings;
  const keyFile = settings.KEY_FILE ?? `${settings.DATA_DIR}/key.json`;
  const logKeyFile = settings.LOG_KEY_FILE ?? `${settings.DATA_DIR}/log-key.json`;
  const logOrigin = settings.LOG_ORIGIN ?? originOf(settings.EVENT_SOURCE);
  if (resolve(keyFile) === resolve(logKeyFile))
    throw new BadConfig(['LOG_KEY_FILE must be another file than KEY_FILE']);
  const problem = SETTING.LOG_ORIGIN.problem(logOrigin);
  if (problem) throw new BadConfig([`with this EVENT_SOURCE, LOG_ORIGIN ${problem}`]);
  return Object.freeze({
    host: settings.HOST,
    port: Number(settings.PORT),
    dataDir: settings.DATA_DIR,
    ...(url === undefined
      ? {}
      : {
          eventStoreDb: {
            url: withEsdbScheme(url),
            timeoutMs: Number(settings.EVENTSTOREDB_TIMEOUT) * 1_000,
            setting: 'EVENTSTOREDB_URL',
          },
        }),
    keyFile,
    ...(JWKS_URL === undefined ? {} : { jwksUrl: new URL(JWKS_URL) }),
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience }),
    corsOrigins: settings.CORS_ORIGINS?.split(',') ?? [],
    source: settings.EVENT_SOURCE,
    logKeyFile,
    logOrigin,
    skipEvents: new Set(settings.SKIP_EVENTS?.split(',')),
    merkleTree: settings.MERKLE_TREE === 'on',
    logLevel: settings.LOG_LEVEL as LogLevel,
  });
}

/** The origin of a log without LOG_ORIGIN, as https://c2sp.org/tlog-tiles advises: a URL without its scheme. */
function originOf(source: string): string {
  return source.replace(/^https?:\/\//i, '').replace(/\/+$/, '');
}

/** The text of each setting: the environment's, that of the file `.env`, or the default. */
function read(env: NodeJS.ProcessEnv): Settings {
  const given = { ...readDotEnv(), ...env };
  const settings: Partial<Record<Name, string>> = {};
  const problems: string[] = [];
  for (const name of SETTINGS) {
    const setting: Setting = SETTING[name];
    const text = given[name] ?? setting.default;
    if (text === undefined) continue;
    settings[name] = text;
    const problem = setting.problem(text);
    if (problem) problems.push(`${name} ${problem}`);
  }
  if (settings.JWKS_URL !== undefined)
    for (const name of ['JWT_ISSUER', 'JWT_AUDIENCE'] as const)
      if (settings[name] === undefined) problems.push(`${name} is required with JWKS_URL`);
  if (problems.length > 0) throw new BadConfig(problems);
  return settings as Settings;
}

function readDotEnv(): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync('.env', 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return {};
    throw new BadConfig([`.env: ${message}`]);
  }
}

function mustBe(rule: string, valid: RegExp | ((text: string) => boolean)): Pick<Setting, 'problem'> {
  const isValid = valid instanceof RegExp ? (text: string) => valid.test(text) : valid;
  return { problem: (text) => (isValid(text) ? undefined : `must be ${rule}`) };
}

function isLogLevel(text: string): boolean {
  return LOG_LEVELS.some((level) => level === text);
}

/** Besides the pattern, since only the URL parser knows the host. */
function isHttpsOrLoopback(text: string): boolean {
  if (!HTTPS_OR_LOOPBACK.test(text)) return false;
  const url = URL.parse(text);
  return url?.protocol === 'https:' || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url?.hostname ?? '');
}
