import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { get, type RequestOptions } from 'node:http';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const { DOCKER_HOST, XDG_RUNTIME_DIR, TESTCONTAINERS_RYUK_DISABLED } = process.env;

const SOCKET = '/var/run/docker.sock';
/** The sockets that testcontainers tries if no variable names an engine. */
const SOCKETS = [
  SOCKET,
  ...(XDG_RUNTIME_DIR === undefined ? [] : [join(XDG_RUNTIME_DIR, 'docker.sock')]),
  join(homedir(), '.docker/run/docker.sock'),
  join(homedir(), '.docker/desktop/docker.sock'),
  `/run/user/${userInfo().uid}/docker.sock`,
];
/** The settings of testcontainers, which may name an engine, too. */
const SETTINGS = join(homedir(), '.testcontainers.properties');

/** The timeout for a response of the engine, in milliseconds. */
const PING_TIMEOUT_MS = 60_000;

const PULL = fileURLToPath(new URL('pull.ts', import.meta.url));

/**
 * The reason why no container of this image can be started here, or undefined. Missing images are
 * pulled, within `timeout` milliseconds per image.
 */
export async function obstacle(image: string, timeout: number): Promise<string | undefined> {
  if (!existsSync(SETTINGS) && !(await Promise.all(engines().map(responds))).includes(true))
    return `no Docker engine responds at ${DOCKER_HOST || SOCKET}`;
  const { getContainerRuntimeClient, ImageName } = await import('testcontainers'); // slow to load
  try {
    const { image: images } = await getContainerRuntimeClient();
    for (const { name, hint } of [{ name: image, hint: '' }, ...(await helpers())]) {
      if (await images.exists(ImageName.fromString(name))) continue;
      const failure = await pull(name, timeout);
      if (failure !== undefined)
        return `the image ${name} is not here and cannot be pulled: ${failure}${hint}`;
    }
  } catch (error) {
    return firstLineOf((error as Error).message);
  }
  return undefined;
}

function engines(): RequestOptions[] {
  if (!DOCKER_HOST) return SOCKETS.filter(existsSync).map((socketPath) => ({ socketPath }));
  const { hostname, port, pathname } = URL.parse(DOCKER_HOST) ?? {};
  return [hostname ? { host: hostname, port } : { socketPath: pathname }];
}

/** Whether an engine responds; one that requires TLS responds, too. */
function responds(engine: RequestOptions): Promise<boolean> {
  return new Promise((resolve) => {
    get({ ...engine, path: '/_ping', signal: AbortSignal.timeout(PING_TIMEOUT_MS) }, (response) => {
      response.resume();
      resolve(true);
    }).on('error', () => resolve(false));
  });
}

/** Ryuk removes the containers of a killed run. */
async function helpers() {
  if (TESTCONTAINERS_RYUK_DISABLED === 'true') return [];
  const { getReaperImage } = await import('testcontainers/build/reaper/reaper.js');
  return [{ name: getReaperImage(), hint: '; TESTCONTAINERS_RYUK_DISABLED=true does without it' }];
}

/** The reason why an image cannot be pulled. In its own process, since testcontainers cannot be aborted. */
async function pull(image: string, timeout: number): Promise<string | undefined> {
  try {
    await promisify(execFile)(process.execPath, [PULL, image], { timeout });
    return undefined;
  } catch (error) {
    const { killed, stderr } = error as { killed: boolean; stderr: string };
    return killed ? `not within ${timeout / 1_000} s` : firstLineOf(stderr);
  }
}

function firstLineOf(text: string): string {
  return text.trim().split('\n', 1)[0] as string;
}
