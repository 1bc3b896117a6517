// A page of an older build than the one that is served says so; it does not reload by itself, since somebody may be typing.
export function startBuild() {
  document.addEventListener("live:build", () => {
    if (document.querySelector("[data-build-note]")) return;
    const note = document.createElement("div");
    note.className = "note note-info";
    note.dataset.buildNote = "";
    note.setAttribute("role", "status");
    const button = document.createElement("button");
    [button.type, button.className, button.textContent] = ["button", "btn btn-sm", "Reload"];
    button.addEventListener("click", () => location.reload());
    note.append("The panel was updated. Reload this page when it suits you.", button);
    document.querySelector(".page-head").after(note);
  });
}
