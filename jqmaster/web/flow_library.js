/** What puts flows in order, of the library: the page loads it when it shows the first flow. */
export {
  coordCenter,
  coordGreedy,
  decrossDfs,
  decrossTwoLayer,
  graph,
  layeringLongestPath,
  sugiyama,
} from "./vendor/d3-dag.js";
