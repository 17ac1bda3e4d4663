import { resolve } from 'node:path';
import { type EnvSchemaOpt, envSchema } from 'env-schema';
import { type Static, Type } from 'typebox';
import Format from 'typebox/format';
import { CONNECTION_STRING } from './eventStore/eventStoreDb/protocol.ts';
import type { EventStoreDbLocation } from './stores.ts';
import { isKeyName, KEY_NAME_RULE } from './transparency/signedNote.ts';

const HTTPS_OR_LOOPBACK = '^(https://[^\\s@]+|http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/\\S*)?)$';
const ORIGINS = '^https?://[a-z0-9.:-]+(,https?://[a-z0-9.:-]+)*$';

const PORTS = '^(0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])$';

/** Every setting; its description completes the sentence "NAME must be …". */
const Settings = Type.Object(
  {
    HOST: Type.String({ default: '127.0.0.1', pattern: '^\\S+$', description: 'a host name or address' }),
    PORT: Type.String({ default: '3000', pattern: PORTS, description: 'a port, or 0 for a free one' }),
    DATA_DIR: Type.String({ default: './data', minLength: 1, description: 'a directory' }),
    EVENTSTOREDB_URL: Type.Optional(
      Type.String({ pattern: CONNECTION_STRING, description: 'an EventStoreDB connection string' }),
    ),
    EVENTSTOREDB_TIMEOUT: Type.String({
      default: '10',
      pattern: '^([1-9]|[1-5]\\d|60)$',
      description: 'a number of seconds from 1 to 60',
    }),
    KEY_FILE: Type.Optional(Type.String({ minLength: 1, description: 'a file' })),
    LOG_KEY_FILE: Type.Optional(Type.String({ minLength: 1, description: 'a file' })),
    LOG_ORIGIN: Type.Optional(
      Type.String({ format: 'key-name', description: `a name such as plants.example/log, ${KEY_NAME_RULE}` }),
    ),
    JWKS_URL: Type.Optional(
      Type.String({
        pattern: HTTPS_OR_LOOPBACK,
        format: 'https-or-loopback',
        description: 'an https URL, or http on the loopback interface',
      }),
    ),
    JWT_ISSUER: Type.Optional(Type.String({ minLength: 1, description: 'the iss of every token' })),
    JWT_AUDIENCE: Type.Optional(Type.String({ minLength: 1, description: 'the aud of every token' })),
    CORS_ORIGINS: Type.Optional(
      Type.String({
        pattern: ORIGINS,
        description: 'origins such as https://app.example, separated by commas',
      }),
    ),
    RATE_LIMIT: Type.Optional(
      Type.String({
        pattern: '^[1-9]\\d{0,5}/(s|min)$',
        description: 'a number of requests from 1 to 999999 per s or min, such as 100/s or 3000/min',
      }),
    ),
    EVENT_SOURCE: Type.String({
      default: 'urn:plant-store',
      format: 'uri',
      description: 'a URI such as https://plants.example/log',
    }),
    SKIP_EVENTS: Type.Optional(
      Type.String({ pattern: '^[^\\s,]+(,[^\\s,]+)*$', description: 'ids of events, separated by commas' }),
    ),
    DOCS: Type.Enum(['on', 'off'], { default: 'on', description: 'on or off' }),
    MERKLE_TREE: Type.Enum(['on', 'off'], { default: 'on', description: 'on or off' }),
    METRICS_HOST: Type.Optional(Type.String({ pattern: '^\\S+$', description: 'a host name or address' })),
    METRICS_PORT: Type.Optional(Type.String({ pattern: PORTS, description: 'a port, or 0 for a free one' })),
    LOG_LEVEL: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
      default: 'info',
      description: 'fatal, error, warn, info, debug, trace or silent',
    }),
  },
  { dependencies: { JWKS_URL: ['JWT_ISSUER', 'JWT_AUDIENCE'], METRICS_HOST: ['METRICS_PORT'] } },
);
type Settings = Static<typeof Settings>;

/** The names of all settings. */
export const SETTINGS = Object.keys(Settings.properties);

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
  /** Whether there are pages for browsers. */
  pages: boolean;
  /** How many requests a user may send; without it, any number. */
  rateLimit?: { maxRequests: number; windowMs: number };
  /** The URI of this store, `source` of its CloudEvents. */
  source: string;
  /** The key that signs checkpoints of the log. */
  logKeyFile: string;
  /** The name of the log in its checkpoints, and of its key. */
  logOrigin: string;
  skipEvents: ReadonlySet<string>;
  /** Whether the Merkle tree of the log is maintained. */
  merkleTree: boolean;
  /** Where Prometheus reads metrics; undefined if they are off. */
  metrics?: Readonly<{ host: string; port: number }>;
  logLevel: Settings['LOG_LEVEL'];
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
  const { METRICS_HOST = '127.0.0.1', METRICS_PORT } = settings;
  if (METRICS_PORT === settings.PORT && METRICS_PORT !== '0')
    throw new BadConfig(['METRICS_PORT must be another port than PORT']);
  if (!isKeyName(logOrigin)) throw new BadConfig([`with this EVENT_SOURCE, ${mustBe('LOG_ORIGIN')}`]);
  return Object.freeze({
    host: settings.HOST,
    port: Number(settings.PORT),
    dataDir: settings.DATA_DIR,
    ...(url === undefined
      ? {}
      : {
          eventStoreDb: {
            url: url,
            timeoutMs: Number(settings.EVENTSTOREDB_TIMEOUT) * 1_000,
            setting: 'EVENTSTOREDB_URL',
          },
        }),
    keyFile,
    ...(JWKS_URL === undefined ? {} : { jwksUrl: new URL(JWKS_URL) }),
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience }),
    corsOrigins: settings.CORS_ORIGINS?.split(',') ?? [],
    pages: settings.DOCS === 'on',
    ...(settings.RATE_LIMIT === undefined ? {} : { rateLimit: parseRateLimit(settings.RATE_LIMIT) }),
    source: settings.EVENT_SOURCE,
    logKeyFile,
    logOrigin,
    skipEvents: new Set(settings.SKIP_EVENTS?.split(',')),
    merkleTree: settings.MERKLE_TREE === 'on',
    ...(METRICS_PORT === undefined ? {} : { metrics: { host: METRICS_HOST, port: Number(METRICS_PORT) } }),
    logLevel: settings.LOG_LEVEL,
  });
}

/** Parses a valid RATE_LIMIT. */
function parseRateLimit(text: string): NonNullable<Config['rateLimit']> {
  const [maxRequests, unit] = text.split('/');
  return { maxRequests: Number(maxRequests), windowMs: unit === 's' ? 1_000 : 60_000 };
}

/** The origin of a log without LOG_ORIGIN, as https://c2sp.org/tlog-tiles advises: a URL without its scheme. */
function originOf(source: string): string {
  return source.replace(/^https?:\/\//i, '').replace(/\/+$/, '');
}

/** The first call adds the formats; later ones use what it has compiled. */
let ajv: NonNullable<EnvSchemaOpt['ajv']> = {
  customOptions(created) {
    ajv = created
      .addFormat('https-or-loopback', isHttpsOrLoopback)
      .addFormat('key-name', isKeyName)
      .addFormat('uri', Format.IsUri);
    return created;
  },
};

type ValidationError = {
  instancePath: string;
  message?: string;
  params: { property?: string; missingProperty?: string };
};

function read(env: NodeJS.ProcessEnv): Settings {
  try {
    return envSchema<Settings>({ schema: Settings, env: false, data: env, dotenv: true, ajv });
  } catch (error) {
    if (!(error instanceof Error && 'errors' in error))
      throw new BadConfig([`.env: ${(error as Error).message}`]);
    const problems = (error.errors as ValidationError[]).map(({ instancePath, params }) => {
      if (params.missingProperty) return `${params.missingProperty} is required with ${params.property}`;
      const name = instancePath.slice(1);
      return mustBe(name);
    });
    throw new BadConfig([...new Set(problems)]);
  }
}

function mustBe(name: string): string {
  return `${name} must be ${Reflect.get(Settings.properties, name).description}`;
}

/** Besides the pattern, since only the URL parser knows the host. */
function isHttpsOrLoopback(text: string): boolean {
  const url = URL.parse(text);
  return url?.protocol === 'https:' || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url?.hostname ?? '');
}
