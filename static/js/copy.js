// <button data-copy="#id">: copies the text of another element and says so.
export function startCopy() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const word = button.querySelector("[data-copy-word]") || button;
    const usual = word.textContent;
    word.textContent = (await copy(document.querySelector(button.dataset.copy))) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (word.textContent = usual), 2000);
  });
}

async function copy(source) {
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
    return true;
  } catch {
    // Without TLS a browser gives no clipboard: select the text, so that one key is left to press.
    getSelection().selectAllChildren(source);
    return false;
  }
}
