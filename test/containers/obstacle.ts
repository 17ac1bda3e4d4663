import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const { DOCKER_HOST, XDG_RUNTIME_DIR = '/run', TESTCONTAINERS_RYUK_DISABLED } = process.env;

/** Where testcontainers finds an engine, besides DOCKER_HOST. */
const PLACES = [
  '/var/run/docker.sock',
  join(XDG_RUNTIME_DIR, 'docker.sock'),
  join(homedir(), '.docker/run/docker.sock'),
  join(homedir(), '.docker/desktop/docker.sock'),
  join(homedir(), '.testcontainers.properties'),
];

/**
 * The reason why no container of this image can be started here, or undefined. Missing images are
 * pulled, within `timeout` milliseconds per image.
 */
export async function obstacle(image: string, timeout: number): Promise<string | undefined> {
  if (!DOCKER_HOST && !PLACES.some(existsSync)) return 'there is no Docker engine';
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

/** Ryuk removes the containers of a killed run. */
async function helpers() {
  if (TESTCONTAINERS_RYUK_DISABLED === 'true') return [];
  const { getReaperImage } = await import('testcontainers/build/reaper/reaper.js');
  return [{ name: getReaperImage(), hint: '; TESTCONTAINERS_RYUK_DISABLED=true does without it' }];
}

/** The reason why an image cannot be pulled. In its own process, since testcontainers cannot be aborted. */
async function pull(image: string, timeout: number): Promise<string | undefined> {
  try {
    await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'pull.ts'), image], { timeout });
    return undefined;
  } catch (error) {
    const { killed, stderr } = error as { killed: boolean; stderr: string };
    return killed ? `not within ${timeout / 1_000} s` : firstLineOf(stderr);
  }
}

function firstLineOf(text: string): string {
  return text.trim().split('\n', 1)[0] as string;
}
