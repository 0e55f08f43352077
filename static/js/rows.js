// “Add a row” under rows of fields: copies the last row, empty, under the next number. Without scripts a few empty rows are there.
for (const group of document.querySelectorAll("[data-rows]")) {
  const button = group.querySelector("[data-add-row]");
  button.hidden = false;
  button.addEventListener("click", () => {
    const rows = group.querySelectorAll("[data-row]");
    const row = rows[rows.length - 1].cloneNode(true);
    for (const field of row.querySelectorAll("[name]")) {
      field.name = field.name.replace(/-\d+-/, `-${rows.length}-`);
      if (field.type === "checkbox") field.checked = false;
      else if (field.tagName === "SELECT") field.selectedIndex = 0;
      else if (!field.hasAttribute("list")) field.value = "";
    }
    button.before(row);
    row.querySelector("select, input").focus();
  });
}
