package fleet

import (
	"strings"
	"testing"
)

// A window that could never open, or that opens at different times on different machines, is an error of the file,
// with its line.
func TestTimesOfPromotions(t *testing.T) {
	t.Parallel()
	for promotion, want := range map[string]string{
		`windows: [{from: "09:00", to: "16:00", timeZone: Europe/Berlin}]`:    "",
		`windows: [{from: "09:00", to: "16:00"}]`:                             "",
		`windows: [{from: "09:00", to: "16:00", timeZone: Europe/Berln}]`:     `"Europe/Berln" is not a time zone`,
		`windows: [{from: "09:00", to: "16:00", timeZone: Local}]`:            `"Local" is not a time zone`,
		`windows: [{from: "09:00", to: "16:00", timeZone: ../../etc/passwd}]`: "is not a time zone",
		`windows: [{from: "9", to: "16:00"}]`:                                 `"9" is not a time of day`,
		`settle: 10m, bake: 1h`:                                               "",
		`settle: soon`:                                                        "environment prod",
	} {
		problems := problemsOf(t, tiny(map[string]string{
			"sluice.yaml": base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [environment, region, cluster]\n  environments:\n    - {name: dev}\n    - name: prod\n      after: [dev]\n      promotion: {" + promotion + "}\n",
		}))
		err := problems.Err()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: the error is %v", promotion, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "sluice.yaml:")):
			t.Errorf("%s: the error is %v, want %s", promotion, err, want)
		}
	}
}
