"""The administration as a whole: how it looks (`look`), its first page (`overview`), and pages that are no table's."""
