import { expect } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { canRun, run } from './process.ts';

export const hasKustomize = canRun('overlays of Kustomize', ['kubectl', 'kustomize', '--help']);

/** The objects of an overlay, and the images of all containers, as Kustomize builds them. */
export async function buildOverlay(directory: string) {
  const { code, stdout, stderr } = await run({ command: ['kubectl', 'kustomize', directory] });
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  return {
    objects: parseAllDocuments(stdout).map((document) => document.toJS()),
    images: [...stdout.matchAll(/image: (\S+)/g)].map(([, image]) => image),
    settingsNames: [...stdout.matchAll(/configMapRef:\s+name: (\S+)/g)].map(([, name]) => name),
  };
}
