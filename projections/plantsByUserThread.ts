import { PLANTS_BY_USER } from './plantsFormat.ts';
import { runViewThread } from './viewThread.ts';

runViewThread(PLANTS_BY_USER);
