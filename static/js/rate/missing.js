// In place of a rating form that is not installed: nothing can be answered; the item can be
// skipped.
export function begin(article) {
  return {
    digit: () => false,
    arrow: () => false,
    act: () => false,
    answer: () => null,
    missing: () => "This rating form is not installed. Skip the item.",
    describe: () => "",
    inFocus: () => article.dataset.members,
    state: () => null,
    restore: () => {},
  };
}
