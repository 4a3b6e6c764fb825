package helm

import (
	"reflect"
	"text/template"
)

// volatile reports whether a template function can return a different result each time it is called: Sprig's random,
// key, salt and time functions, and its date functions that default to the current time.
func volatile(name string) bool {
	switch name {
	case "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes", "randInt", "shuffle", "uuidv4", "bcrypt",
		"htpasswd", "encryptAES",
		"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
		"genSignedCertWithKey",
		"now", "ago", "durationRound", "date", "dateInZone", "date_in_zone", "dateModify", "date_modify", "htmlDate",
		"htmlDateInZone":
		return true
	}
	return false
}

// watched returns the volatile functions of a map, so that the execution sees that one is called. In a probe, the
// functions of time return what they return at another time.
func (e *execution) watched(all template.FuncMap) template.FuncMap {
	out := template.FuncMap{}
	for name, f := range all {
		if volatile(name) {
			out[name] = e.watch(name, reflect.ValueOf(f))
		}
	}
	return out
}

func (e *execution) watch(name string, call reflect.Value) any {
	return reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
		e.unstable = true
		switch {
		case e.probe && name == "now":
			return []reflect.Value{reflect.ValueOf(probeTime())}
		case e.probe:
			inProbe(name, args)
		}
		if call.Type().IsVariadic() {
			return call.CallSlice(args)
		}
		return call.Call(args)
	}).Interface()
}
