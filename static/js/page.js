// What every page needs. Each concern is its own module.
import "./live.js";
import "./gpus.js";
import "./refetch.js";
import { startAttention } from "./attention.js";
import { startBuild } from "./build.js";
import { startTimes } from "./times.js";
import { startNav } from "./nav.js";
import { startCopy } from "./copy.js";
import { startFields } from "./fields.js";
import { startKeys } from "./keys.js";
import { startPaper } from "./paper.js";
import { startScroll } from "./scroll.js";

startNav();
startTimes();
startCopy();
startFields();
startScroll();
startBuild();
startKeys();
startAttention();
startPaper();
