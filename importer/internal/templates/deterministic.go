package templates

import (
	"fmt"
	"maps"
	"slices"
	"text/template"
)

// MakeDeterministic changes Sprig's functions so that equal templates give equal texts, at any time and on any machine.
// `keys` and `values`, whose results have no order in Sprig, sort by key. Functions that depend on the clock, the time
// zone or randomness return an error.
func MakeDeterministic(functions template.FuncMap) {
	for _, name := range []string{
		"ago", "bcrypt", "date", "dateInZone", "dateModify", "date_in_zone", "date_modify", "durationRound",
		"encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
		"genSignedCert", "genSignedCertWithKey", "htmlDate", "htmlDateInZone", "htpasswd", "mustDateModify", "mustToDate",
		"must_date_modify", "now", "randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric",
		"shuffle", "toDate", "uuidv4",
	} {
		if functions[name] == nil {
			continue
		}
		functions[name] = func(...any) (string, error) {
			return "", fmt.Errorf("the function %s is not supported: its result is not the same everywhere", name)
		}
	}
	functions["keys"] = func(list ...map[string]any) []string {
		keys := []string{}
		for _, m := range list {
			keys = append(keys, slices.Sorted(maps.Keys(m))...)
		}
		return keys
	}
	functions["values"] = func(m map[string]any) []any {
		values := []any{}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			values = append(values, m[k])
		}
		return values
	}
}
