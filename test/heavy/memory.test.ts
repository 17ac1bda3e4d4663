import { constantMemory } from '../e2e/constantMemory.ts';

constantMemory({
  plants: 1_000_000,
  species: 'a fern with a name that is long enough for the whole list to weigh something, number',
  heap: 128,
});
