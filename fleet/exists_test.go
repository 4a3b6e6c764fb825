package fleet

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// Missing charts, roots and folders are found without rendering, at the line that names them.
func TestChartsOfAFleet(t *testing.T) {
	f := load(t, fleettest.Everyday())
	var got []string
	for _, c := range f.Charts() {
		var targets []string
		for _, target := range c.Targets {
			targets = append(targets, target.String())
		}
		got = append(got, strings.Join([]string{c.File, c.Chart, c.Version, strings.Join(targets, " ")}, ","))
		if c.Line == 0 {
			t.Errorf("no line for %+v", c)
		}
	}
	want := "apps/web/app.yaml,web,1.10,a/web; apps/plain/app.yaml,web,1.0.0,b/plain; apps/web/app.yaml,web,2.0.0,b/web"
	if strings.Join(got, "; ") != want {
		t.Errorf("the result is %s", strings.Join(got, "; "))
	}
}

// The message says what kind of file it is.
