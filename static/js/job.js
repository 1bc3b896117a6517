// The job page: its log and its memory curve.
import { startCurve } from "./curve.js";
import { startLog } from "./log/log.js";

for (const root of document.querySelectorAll("[data-log]")) startLog(root);
for (const root of document.querySelectorAll("[data-curve]")) startCurve(root);
