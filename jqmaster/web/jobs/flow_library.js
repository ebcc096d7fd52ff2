/** The parts of the library that lay out flows. The page loads them when it shows the first flow. */
export {
  coordCenter,
  coordGreedy,
  decrossDfs,
  decrossTwoLayer,
  graph,
  layeringLongestPath,
  sugiyama,
} from "../vendor/d3-dag.js";
