package report

// Sheet is a page of facts for a person who decides, such as what a transfer bundle contains. All text is from outside.
type Sheet struct {
	Fleet    string
	Title    string
	Lead     string // one line above the title
	Sections []SheetSection
	Version  string // of Sluice
}

// SheetSection is a table of a Sheet. It is left out if it has no rows.
type SheetSection struct {
	Title   string
	Columns []string
	Rows    [][]string
	More    int // rows that were cut
}
