// The entry of the process. A dynamic import, since a static one would be loaded before the check.
import './requireNode.js';

import('./main.ts');
