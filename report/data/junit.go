package data

import (
	"cmp"
	"encoding/xml"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

type testSuites struct {
	XMLName  xml.Name    `xml:"testsuites"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Suites   []testSuite `xml:"testsuite"`
}

type testSuite struct {
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Name    string       `xml:"name,attr"`
	Class   string       `xml:"classname,attr"`
	File    string       `xml:"file,attr,omitempty"`
	Failure *testProblem `xml:"failure,omitempty"`
	Error   *testProblem `xml:"error,omitempty"`
	Out     string       `xml:"system-out,omitempty"`
}

type testProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the findings as JUnit XML in the dialect of GitLab and Jenkins: a suite for each app, a case for each
// finding. Findings of severity error are failures, other findings pass with a text, and a target that cannot be
// rendered is an error. A review without findings is one case that passes.
func JUnit(w io.Writer, r *report.Review) error {
	byApp := map[string]*testSuite{}
	suite := func(name string) *testSuite {
		name = cmp.Or(clean(name), "fleet")
		if byApp[name] == nil {
			byApp[name] = &testSuite{Name: name}
		}
		return byApp[name]
	}
	add := func(app string, c testCase) {
		s := suite(app)
		s.Cases = append(s.Cases, c)
		s.Tests++
		if c.Failure != nil {
			s.Failures++
		}
		if c.Error != nil {
			s.Errors++
		}
	}
	for _, e := range r.Errors {
		add("", testCase{
			Name: "review", Class: "sluice." + ruleRendering,
			Error: &testProblem{Message: firstLine(e), Type: ruleRendering, Text: clean(e)},
		})
	}
	if r.Changes != nil {
		for _, one := range r.Changes.Withheld {
			f := withheld(one)
			add(one.App, testCase{
				Name: clean(one.App + " on " + one.Cluster), Class: "sluice." + ruleRendering, File: clean(f.File),
				Error: &testProblem{Message: firstLine(f.Message), Type: ruleRendering, Text: clean(f.Message)},
			})
		}
	}
	for i := range r.Findings.Introduced {
		f := &r.Findings.Introduced[i]
		c := testCase{
			Name:  clean(strings.TrimSpace(diff.Title(f.Object) + " " + f.Path + " on " + where(f))),
			Class: "sluice." + clean(f.Rule), File: clean(f.File),
		}
		if f.Severity == report.SeverityError {
			c.Failure = &testProblem{Message: firstLine(f.Message), Type: clean(f.Rule), Text: sentence(f)}
		} else {
			c.Out = string(f.Severity) + ": " + sentence(f)
		}
		add(f.App, c)
	}
	out := testSuites{Name: "sluice"}
	if len(byApp) == 0 {
		add("", testCase{Name: "policy", Class: "sluice"})
	}
	for _, s := range byApp {
		out.Suites = append(out.Suites, *s)
		out.Tests, out.Failures, out.Errors = out.Tests+s.Tests, out.Failures+s.Failures, out.Errors+s.Errors
	}
	slices.SortStableFunc(out.Suites, func(a, b testSuite) int { return strings.Compare(a.Name, b.Name) })
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return clean(line)
}

// clean escapes what XML 1.0, terminals and log viewers cannot show. Line breaks stay.
func clean(s string) string { return safetext.Lines(s) }
