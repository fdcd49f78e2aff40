// Flows imported from 0.1 and earlier tell their users to run this path. The gateway itself is in assets/.
import { mockGateway } from '../assets/mock-gateway.mjs';

mockGateway(process.argv.slice(2));
