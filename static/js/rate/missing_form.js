// Stands in for a rating form that is not installed: the item can only be skipped.
export function createForm(article) {
  return {
    onDigit: () => false,
    onArrow: () => false,
    onAction: () => false,
    getAnswer: () => null,
    missingMessage: () => "This rating form is not installed. Skip the item.",
    summarize: () => "",
    focusedRollout: () => article.dataset.members,
    saveState: () => null,
    restoreState: () => {},
  };
}
