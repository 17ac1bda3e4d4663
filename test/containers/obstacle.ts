import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/**
 * The reason why no container of these images can be started here, or undefined. Missing images are pulled, within
 * `timeout` milliseconds per image.
 */
export async function obstacle(names: readonly string[], timeout: number): Promise<string | undefined> {
  const { getContainerRuntimeClient, ImageName } = await import('testcontainers'); // slow to load
  try {
    const { image: images } = await getContainerRuntimeClient();
    for (const name of names) {
      if (await images.exists(ImageName.fromString(name))) continue;
      const failure = await pull(name, timeout);
      if (failure !== undefined) return `the image ${name} is not here and cannot be pulled: ${failure}`;
    }
  } catch (error) {
    return firstLineOf((error as Error).message);
  }
  return undefined;
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
