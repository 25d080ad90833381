module example.com/thirdparty

go 1.26.0

require github.com/locker-go/locker v0.0.0

replace github.com/locker-go/locker => ../../..
