package page

import (
	_ "embed" // for the style
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/report"
)

//go:embed trial.css
var trialCSS string

const (
	trialObjects = 150 // objects of one report
	trialLines   = 400 // of one object
)

// trialView is what the template of a trial fills in.
type trialView struct {
	Trial   *report.Trial
	Changes []*trialChange
	Took    string
	CSS     template.CSS
	Policy  string
}

type trialChange struct {
	*view
	Change     *report.TrialChange
	Risk, Size string
	When, Took string
}

// View is what the templates of a report fill in.
func (c *trialChange) View() *view { return c.view }

// WriteTrial writes the reviews of several changes as one HTML page that needs nothing else. The page has no script:
// each report is behind a line that opens it. A report of many objects is cut, and names the command that shows all.
func WriteTrial(w io.Writer, t *report.Trial) error {
	a, err := shared()
	if err != nil {
		return err
	}
	css := design.CSS() + pageCSS + trialCSS
	v := &trialView{Trial: t, Took: seconds(t.Took), CSS: template.CSS(css)} //nolint:gosec // our own files
	v.Policy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'", digest(css))
	for i := range t.Changes {
		c := &t.Changes[i]
		one := &trialChange{
			view: newViewIn(c.Review, fmt.Sprintf("c%d", i+1)), Change: c, Risk: report.Risk(c.Review),
			Size: report.Size(c.Review), Took: seconds(c.Took),
		}
		if !c.When.IsZero() {
			one.When = c.When.UTC().Format(time.DateOnly)
		}
		one.shorten()
		v.Changes = append(v.Changes, one)
	}
	if err := a.template.ExecuteTemplate(w, "trial.html", v); err != nil {
		return fmt.Errorf("HTML page: %w", err)
	}
	return nil
}

// shorten keeps the first objects of a report, and removes what only a script can show.
func (v *view) shorten() {
	objects := 0
	for _, app := range v.Apps {
		var visible []*groupView
		for _, g := range app.Groups {
			if objects >= trialObjects {
				v.Cut++
				continue
			}
			objects += len(g.Objects)
			g.Deferred = false
			for _, o := range g.Objects {
				o.shorten()
			}
			visible = append(visible, g)
		}
		app.Groups = visible
	}
}

func (o *objectView) shorten() {
	left := trialLines
	for i := range o.Hunks {
		h := &o.Hunks[i]
		h.Above, h.Below = "", ""
		var visible []run
		for _, r := range h.Runs {
			lines := strings.Split(r.Text, "\n")
			shown := lines[:min(left, len(lines))]
			left -= len(shown)
			o.MoreLines += len(lines) - len(shown)
			if len(shown) > 0 {
				visible = append(visible, run{Kind: r.Kind, Text: strings.Join(shown, "\n")})
			}
		}
		h.Runs = visible
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
