package helm

import (
	"reflect"
	"text/template"
	"time"
)

// inUTC returns Sprig's functions that use the time zone of the machine, with UTC instead: machines with different
// zones have to render the same.
func inUTC(now func() time.Time, dateInZone func(format string, at any, zone string) string) template.FuncMap {
	const day = "2006-01-02"
	in := func(format string, at any, zone string) string {
		if zone == "Local" {
			zone = "UTC"
		}
		return dateInZone(format, at, zone)
	}
	parse := func(format, text string) (time.Time, error) { return time.ParseInLocation(format, text, time.UTC) }
	return template.FuncMap{
		"now":            func() time.Time { return now().UTC() },
		"date":           func(format string, at any) string { return in(format, at, "UTC") },
		"htmlDate":       func(at any) string { return in(day, at, "UTC") },
		"dateInZone":     in,
		"date_in_zone":   in,
		"htmlDateInZone": func(at any, zone string) string { return in(day, at, zone) },
		"mustToDate":     parse,
		"toDate": func(format, text string) time.Time {
			at, err := parse(format, text)
			if err != nil {
				return time.Time{} // as Sprig does
			}
			return at
		},
	}
}

// probeTime is the time of a probe: it differs from the present in every unit.
func probeTime() time.Time { return time.Date(2001, 7, 5, 3, 17, 41, 0, time.UTC) }

// inProbe changes the arguments of Sprig's functions of time to those that give what the function returns at probeTime.
// A template in values calls them too, whose text is not in the chart.
func inProbe(name string, args []reflect.Value) {
	switch name {
	case "htmlDate", "htmlDateInZone":
		args[0] = orProbeTime(args[0])
	case "date", "dateInZone", "date_in_zone":
		args[1] = orProbeTime(args[1])
	case "ago":
		args[0] = sinceProbeTime(args[0])
	case "durationRound":
		if _, ok := reflect.TypeAssert[time.Time](args[0]); ok { // others are durations
			args[0] = sinceProbeTime(args[0])
		}
	}
}

// orProbeTime returns probeTime for a value that is not a time, where Sprig uses the present, and other values as they
// are.
func orProbeTime(v reflect.Value) reflect.Value {
	switch v.Interface().(type) {
	case time.Time, *time.Time, int64, int, int32:
		return v
	}
	return reflect.ValueOf(probeTime())
}

// sinceProbeTime moves a time by the age of probeTime, so that functions of its age give what they gave at probeTime.
func sinceProbeTime(v reflect.Value) reflect.Value {
	var at time.Time
	switch x := v.Interface().(type) {
	case time.Time:
		at = x
	case int64:
		at = time.Unix(x, 0)
	case int:
		at = time.Unix(int64(x), 0)
	default:
		return v
	}
	return reflect.ValueOf(at.Add(time.Since(probeTime())))
}
