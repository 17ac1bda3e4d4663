import { constantMemory } from '../support/constantMemory.ts';

await constantMemory({
  plants: 1_000_000,
  species: 'a fern with a name that is long enough for the whole list to weigh something, number',
  room: 64,
  heap: 128,
});
