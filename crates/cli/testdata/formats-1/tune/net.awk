BEGIN { need["conv1.weight"] = 3; need["conv2.weight"] = 5; need["conv1.input"] = 4; need["conv2.input"] = 4 }
/^#/ || $2 == "FLOAT" { next }
$3 < need[$1] { lost += 0.02 * (need[$1] - $3) }
$2 == "EXP" || $4 > 1 { lost += 0.05 }
END { printf "accuracy = %.5f\n", 0.98 - lost }
