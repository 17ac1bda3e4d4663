import type { Plant } from './server.ts';

/** Each user's plants in memory, in the order of their events; a restart reads all events again. */
export class MemoryView {
  readonly #plants = new Map<string, Plant[]>();

  apply({ user, name, tag }: Plant & { user: string }): void {
    const plant = tag === undefined ? { name } : { name, tag };
    const plants = this.#plants.get(user);
    if (plants) plants.push(plant);
    else this.#plants.set(user, [plant]);
  }

  list(user: string, limit: number): Plant[] {
    return this.#plants.get(user)?.slice(0, limit) ?? [];
  }
}
